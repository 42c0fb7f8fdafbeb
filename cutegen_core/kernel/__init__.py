"""Read a kernel file: from its text to a checked launch plan."""
