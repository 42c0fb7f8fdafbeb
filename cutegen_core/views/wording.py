"""Write numbers, sizes and states as pages, slides and reports show them."""

from __future__ import annotations


def micros(us: float) -> str:
    """Return a time with four digits and the unit a person would choose."""
    return f"{us / 1000:.4g} ms" if us >= 1000 else f"{us:.4g} µs"


def ratio(value: float) -> str:
    """Return a speedup: 0.0256 -> "0.026x", 1.124 -> "1.12x", 45.79 -> "45.8x"."""
    return f"{value:.2g}x" if value < 0.1 else f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def percent(fraction: float) -> str:
    """Return a small relative number, such as a noise: 0.006 -> "0.6 %"."""
    return f"{100 * fraction:.2g} %"


def dims(extents: tuple[int, ...]) -> str:
    """Return a grid or a block, without trailing ones."""
    while len(extents) > 1 and extents[-1] == 1:
        extents = extents[:-1]
    return " x ".join(map(str, extents))


def counted(number: int, thing: str) -> str:
    """Return "1 step", "2 steps"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def lowered(word: object) -> str:
    """Return a state in words: "INCORRECT_NUMERICAL" -> "incorrect numerical"."""
    return str(word).replace("_", " ").lower()
