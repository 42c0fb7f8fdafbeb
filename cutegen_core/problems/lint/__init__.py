"""Check problems (lint): would wrong kernels pass, and can right ones be timed? Start with `linting`."""
