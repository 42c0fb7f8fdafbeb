"""Texts that any strategy gives to a model: evidence, graph notes, profile notes."""
