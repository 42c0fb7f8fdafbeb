"""Adapters of the port `Proposer`."""
