"""Prepare a traced graph for lowering (`sizes`, `in_place`), and its values for planning (`choice`)."""
