"""Evaluate candidates: take them through the stages, sweep parameters, ablate changes. Start with `evaluator`."""
