"""Stages of a trial, one module each; `evaluate.evaluator` runs them in order."""
