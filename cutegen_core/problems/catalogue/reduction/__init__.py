"""Row reductions and normalisations."""
