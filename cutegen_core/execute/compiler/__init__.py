"""NVRTC in a compile server of its own: from a kernel file to a cubin, a folded log, resources and SASS."""
