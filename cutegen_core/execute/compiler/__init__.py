"""Compile a kernel file with NVRTC, in a separate compile server, to a cubin, diagnostics, resources and SASS."""
