"""Numbers, sizes and states as every text of the workbench writes them: evidence, pages, slides, prompts, terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from cutegen_core.records.performance import BEST, CANDIDATE, EXISTING, Speedup, Word

NEEDS_GPU = "needs a GPU: the emulator tests kernels but cannot time them"
CAREFUL = "Careful: "
"""Before each warning about a reply's text, a line each behind what the reply says of its change."""
_CLOSE, _NO_DIFFERENCE = 1.1, 0.005
_MANY = 1e6
_CALLED = {CANDIDATE: "this kernel", BEST: "previous best", EXISTING: "existing kernel"}
_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def micros(us: float) -> str:
    """Write a time with four digits, in µs, ms or s."""
    if us >= 1e6:
        return f"{us / 1e6:.4g} s"
    return f"{us / 1000:.4g} ms" if us >= 1000 else f"{us:.4g} µs"


def listed(names: Iterable[str]) -> str:
    """Write names as a list: "one, ragged", or where one has a comma itself "one; ragged, huge values"."""
    found = list(names)
    return ("; " if any("," in name for name in found) else ", ").join(found)


def ratio(value: float) -> str:
    """Write a speedup: 0.0256 -> "0.026x", 1.124 -> "1.12x", 45.79 -> "45.8x"."""
    return f"{value:.2g}x" if value < 0.1 else f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def pace(speedup: Speedup) -> str:
    """Write a comparison: "1.20x faster", "1.92x slower", or "1.01x, within noise"."""
    if speedup.word is Word.SAME:
        return f"{_factor(speedup.ratio)}, within noise"
    if speedup.word is Word.FASTER:
        return f"{_factor(speedup.ratio)} faster"
    return f"{_factor(1 / speedup.ratio)} slower"


def pace_against(speedup: Speedup) -> str:
    """Write a comparison with its baseline: "1.20x faster than eager", or "1.01x, within noise of eager"."""
    article = "the " if speedup.baseline in (BEST, EXISTING) else ""
    return f"{pace(speedup)} {'of' if speedup.word is Word.SAME else 'than'} {article}{called(speedup.baseline)}"


def pace_short(speedup: Speedup) -> str:
    """Write a comparison for a narrow column: "1.20x faster", "1.92x slower", or "within noise"."""
    return "within noise" if speedup.word is Word.SAME else pace(speedup)


def factor_words(value: float) -> str:
    """Write a quotient of two times: 1.31 -> "1.31x faster", 0.52 -> "1.92x slower", 1.002 -> "same time".

    For times that were not compared in turns, and so have no interval.
    """
    if abs(value - 1) < _NO_DIFFERENCE:
        return "same time"
    return f"{_factor(value)} faster" if value > 1 else f"{_factor(1 / value)} slower"


def interval(speedup: Speedup) -> str:
    """Write the 95 % interval of a speedup: "1.118 to 1.127"."""
    return f"{speedup.low:.3f} to {speedup.high:.3f}"


def called(contender: str) -> str:
    """Name a contender; a baseline keeps its own name."""
    return _CALLED.get(contender, contender)


def _factor(value: float) -> str:
    """Write a factor; one near 1 gets three decimals, so that 1.004 does not read as no change."""
    return f"{value:.3f}x" if 1 / _CLOSE < value < _CLOSE else ratio(value)


def percent(fraction: float) -> str:
    """Write a relative number, such as a noise: 0.006 -> "0.6 %", 1 -> "100 %"."""
    return f"{100 * fraction:.2g} %" if abs(fraction) < 0.1 else f"{100 * fraction:.0f} %"


def times(ratio: float) -> str:
    """Write how many times too much: "3.14x"; where the number says nothing any more, "over a million times"."""
    return f"{ratio:.3g}x" if ratio < _MANY else "over a million times"


def dims(extents: tuple[int, ...]) -> str:
    """Write a grid or a block, without trailing ones."""
    while len(extents) > 1 and extents[-1] == 1:
        extents = extents[:-1]
    return " x ".join(map(str, extents))


def counted(number: int, thing: str) -> str:
    """Write a count: "1 step", "2 steps", "2 launches"."""
    plural = "es" if thing.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{number:,} {thing}{'' if number == 1 else plural}"


def in_ascii(name: str) -> str:
    """Write a name in letters of ASCII: without their accents, and others by what Unicode calls them, as NVRTC takes no
    other: "größe" -> "grose", "α" -> "alpha"."""
    if name.isascii():
        return name
    letters = (c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return "".join(c if c.isascii() else unicodedata.name(c, "_").split()[-1].lower() for c in letters)


def lowered(word: object) -> str:
    """Write a state: "INCORRECT_NUMERICAL" -> "incorrect numerical"."""
    return str(word).replace("_", " ").lower()


def sized(value: float) -> str:
    """Write a counter with four digits and the letter of its size: 12_345_678 -> "12.35 M"."""
    for size, letter in _SIZES:
        if abs(value) >= 10 * size:
            return f"{value / size:.4g} {letter}"
    return f"{value:.4g}"


def data_size(count: int) -> str:
    """Write a number of bytes in kB, MB or GB."""
    unit, name = next((one for one in ((1e9, "GB"), (1e6, "MB")) if count >= one[0]), (1e3, "kB"))
    return f"{count / unit:.3g} {name}"
