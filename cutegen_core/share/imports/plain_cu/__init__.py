"""Import a plain `.cu` with host code as a kernel file whose launch plan is read from its launch statements.

1. `source` splits the file at its top level: kernels, device code, host functions, the rest.
2. `statements` reads the body of a host function; `host_values` computes what its expressions mean in a plan.
3. `host_walk` follows the host code from function to function and lists its launches.
4. `matching` finds the problem's tensors and numbers behind the arguments.
5. `writing` writes the kernel file; what could not be read is a hole with the original text beside it.
6. `importing` puts them together: `import_kernel`. Nothing is run, and nothing is compiled.
"""

from cutegen_core.share.imports.plain_cu.importing import ImportedKernel, import_kernel

__all__ = ["ImportedKernel", "import_kernel"]
