"""What pointwise operations compute, as C++: their formulas, the functions these call, and how they are filled in."""
