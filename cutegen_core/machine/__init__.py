"""This computer: folders, the toolchain, devices, worker processes and the sandbox."""
