"""The CPU emulator: CuTe kernels executed thread by thread, for right or wrong, never for speed.

1. `overlay` copies CUTLASS headers once, every inline PTX statement turned into a call of an interpreter (`rewrite`).
2. `installation` builds that overlay, two precompiled preludes and the runner with ninja, once a version.
3. `build` turns a candidate into a shared object: screened, rewritten, compiled in a sandbox, kept by content.
4. `run` hands it and the tensors to the runner (C++ in `runtime/`), a sandboxed process that ends with every run.
5. `symbolise` maps addresses the runner reports back to lines of the kernel file.
"""
