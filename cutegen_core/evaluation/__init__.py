"""The stages of a trial, one module each; `cutegen_core.evaluator` takes a candidate through them in order."""
