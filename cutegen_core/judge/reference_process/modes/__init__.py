"""Carry a reference out in other operations than PyTorch would: a trace says more, or what is left open shows."""
