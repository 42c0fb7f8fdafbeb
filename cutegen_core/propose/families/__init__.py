"""Families of problems: each folder says how its class is found from a graph, what bounds it and what to try on it."""
