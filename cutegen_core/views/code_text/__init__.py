"""Kernel sources as pictures need them: coloured pieces, the rows of a diff, the words that changed."""
