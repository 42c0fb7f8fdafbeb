"""Rows of any length, and attention."""
