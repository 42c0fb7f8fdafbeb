"""Mutate kernel files, and count which mutants the judge catches.

1. `mutants.find_mutants` makes the mutants of a file: the edits of `operators`, `statements` and `plan_edits`, which
   read its live code through `code`.
2. `oracle` decides whether a mutant that passed computes something else than the original.
3. `study` takes mutants through an evaluator and returns the table.
"""
