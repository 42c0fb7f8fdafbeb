"""Pointwise problems: each element of the output from the same element of the inputs."""
