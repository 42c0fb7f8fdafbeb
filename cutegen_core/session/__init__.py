"""The loop. Start with `loop`."""
