"""Bring a kernel back into the library that its problem came from.

1. `facts` finds what the export rests on: the original host function, in-place outputs, shapes of outputs.
2. `dropin` writes a `.cu` with a host function of the original's signature.
3. `operator` writes a `torch.library` operator as a Python module.
4. `patch` writes a unified diff for the original file.
5. `project` puts them into a folder, with a script that checks the operator against the original.
"""
