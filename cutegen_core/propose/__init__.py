"""Who writes the next candidate. Start with `port`."""
