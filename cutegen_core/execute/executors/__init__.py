"""Implement `execute.port` on the emulator (`cpu`) and on the CUDA driver (`gpu`)."""
