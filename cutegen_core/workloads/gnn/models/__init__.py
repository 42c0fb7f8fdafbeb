"""Hold the architectures, each over the aggregate's seam."""
