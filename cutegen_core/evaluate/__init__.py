"""Take a candidate through the stages, and look at it more closely. Start with `evaluator`."""
