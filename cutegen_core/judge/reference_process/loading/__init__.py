"""Load a problem file: its module, its tensors by contract name, on the device where the workbench runs it."""
