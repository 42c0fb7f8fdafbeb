"""Adapters of the port `Executor`."""
