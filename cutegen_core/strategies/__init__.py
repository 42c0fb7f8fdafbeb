"""Strategies: proposers that ask a model."""
