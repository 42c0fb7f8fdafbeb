"""The lint of a problem: would wrong kernels pass, and can right ones be timed? Start at `linting`."""
