"""Interleaved timing of a candidate against baselines on a GPU. Start with `timer`."""
