"""Execute CuTe kernels thread by thread on the CPU, to check correctness, never speed.

1. `overlay` copies CUTLASS headers once and turns their inline PTX into calls of an interpreter (`asm_statements`).
2. `installation` builds that overlay, two precompiled preludes and the runner with ninja, once per version.
3. `build` turns a candidate into a shared object: it screens, rewrites and compiles the source in a sandbox, and stores
   the result by content.
4. `run` gives the shared object and the tensors to the runner (C++ in `runtime/`), one sandboxed process per run.
5. `symbolise` maps addresses that the runner reports to lines of the kernel file.
"""
