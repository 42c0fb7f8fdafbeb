"""Prepare a traced graph for lowering: numbers that follow the sizes (`sizes`), writes to operands (`in_place`)."""
