"""Execute CuTe kernels thread by thread on the CPU, to check correctness, never speed.

1. `overlay` copies CUTLASS headers once and turns their inline PTX into calls of an interpreter (`asm_statements`).
2. `installation` builds that overlay, the precompiled prelude and the runner with ninja, once per version.
3. `build` turns a candidate into two shared objects, plain and checked: it screens, rewrites and compiles the source
   in a sandbox, and stores the result by content. One front end serves both; `machine_code` makes them of its code.
4. `run` gives the shared object and the tensors to the runner (C++ in `runtime/`), one sandboxed process per run.
5. `symbolise` maps addresses that the runner reports to lines of the kernel file.
"""
