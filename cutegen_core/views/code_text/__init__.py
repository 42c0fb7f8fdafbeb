"""Kernel sources as pictures need them: coloured pieces, the rows of a difference, the words that changed."""
