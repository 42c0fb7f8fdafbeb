"""Train, infer and measure: batches through prepare, transfer and compute, on one device or several ranks."""
