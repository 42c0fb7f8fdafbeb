"""The adapters of `execute.port`: the emulator (`cpu`) and the driver (`gpu`)."""
