"""Describe in words what wrong elements have in common: where they lie and which values they hold.

Examples: "only the last 3 columns; there: never written", "got is want transposed", "every second row; there: 0".
Arrays are seen as a table: the last dimension gives the columns, all others together the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]

_LARGEST_PERIOD = 64
_ALIKE = 1e-3
_CLOSE = 2e-2
_FAR_BETTER = 0.05
"""Share of the errors that may be left where a pattern of the values is to explain them."""


def find_pattern(got: Array, want: Array, wrong: Mask, poison: Mask) -> str:
    """Describe a failed comparison in one line; `wrong` has at least one true element."""
    whole = _whole(got, want, poison)
    if whole:
        return whole
    where, what = _where(wrong), _what(got[wrong], want[wrong], poison[wrong])
    return f"{where}; there: {what}" if what else where


def _whole(got: Array, want: Array, poison: Mask) -> str:
    """Describe a pattern of the whole output, or return "" if none fits."""
    if poison.all():
        return f"untouched: no element was written{_or_written(got)}"
    if got.dtype.kind == "f" and np.isnan(got).all():
        return "NaN everywhere"
    if got.size > 1 and bool((got == got.reshape(-1)[0]).all()) and not _constant(want):
        return f"every element is {_short(got.reshape(-1)[0])}"
    if got.size < 4 or _constant(want) or not np.isfinite(got.astype(np.float64)).all():
        return ""
    return _rearranged(got, want) or _scaled(got, want)


def _explains(got: Array, other: Array, want: Array) -> bool:
    """Return whether `got` is `other` far better than it is `want`: values that are merely close explain nothing."""
    return _alike(got, other) and _leaves_little(_distance(got, other), _distance(got, want))


def _leaves_little(left: float, error: float) -> bool:
    """Return whether little of the error is left; of one that float64 does not show, nothing is known."""
    return error > 0 and left <= _FAR_BETTER * error


def _distance(left: Array, right: Array) -> float:
    return float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max(initial=0.0))


def _rearranged(got: Array, want: Array) -> str:
    if got.ndim >= 2:
        rows, columns = got.shape[-2:]
        turned = np.swapaxes(want, -1, -2).reshape(got.shape)
        if min(rows, columns) > 1 and _explains(got, turned, want):
            return "got is want transposed" + (" (written with the wrong leading dimension)" if rows != columns else "")
        for axis, name in ((-1, "columns"), (-2, "rows")):
            if got.shape[axis] > 1 and _explains(got, np.flip(want, axis), want):
                return f"got is want with its {name} reversed"
    shift = _shift(got.reshape(-1), want.reshape(-1))
    if shift:
        return f"got is want shifted by {shift} element{'s' if abs(shift) > 1 else ''}"
    ours, theirs = np.sort(got, axis=None), np.sort(want, axis=None)
    if _alike(ours, theirs) and _leaves_little(_distance(ours, theirs), _distance(got, want)):
        return "the right values in the wrong places (a permutation)"
    return ""


def _shift(got: Array, want: Array) -> int:
    """Return k if got[i] is want[i + k] wherever both exist, for powers of two up to 32; 0 otherwise."""
    for k in (1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32, -32):
        if abs(k) * 2 < got.size:
            ours, theirs = (got[:-k], want[k:]) if k > 0 else (got[-k:], want[:k])
            same = want[: ours.size] if k > 0 else want[-ours.size :]
            if _explains(ours, theirs, same):
                return k
    return 0


def _scaled(got: Array, want: Array) -> str:
    ours, theirs = got.astype(np.float64), want.astype(np.float64)
    if not np.isfinite(theirs).all():
        return ""
    power = float((theirs * theirs).sum())
    factor = float((ours * theirs).sum()) / power if power else 0.0
    if factor and abs(factor - 1.0) > _ALIKE and _alike(ours, factor * theirs):
        return f"got is want times {_short(factor)}"
    offset = float((ours - theirs).mean())
    spread = float(theirs.std())
    if abs(offset) > _ALIKE * max(spread, 1e-30) and np.abs(ours - theirs - offset).max() <= _ALIKE * abs(offset):
        return f"got is want plus {_short(offset)}"
    return ""


def _where(wrong: Mask) -> str:
    if wrong.all():
        return "every element"
    if wrong.sum() == 1:
        return "a single element"
    table = wrong.reshape(-1, wrong.shape[-1]) if wrong.ndim > 1 else wrong.reshape(1, -1)
    rows, columns = np.flatnonzero(table.any(axis=1)), np.flatnonzero(table.any(axis=0))
    for describe in (_tail, _triangle, _lines, _region):
        text = describe(table, rows, columns, wrong)
        if text:
            return text
    return f"scattered: {int(wrong.sum())} of {wrong.size}"


def _tail(table: Mask, rows: Array, columns: Array, wrong: Mask) -> str:
    first = int(np.flatnonzero(wrong)[0])
    if table.shape[0] > 1 and columns[0] > 0 and _dense(table[:, columns[0] :], 0.5) and len(rows) * 2 > len(table):
        count = table.shape[1] - int(columns[0])
        return f"only the last {_count(count, 'column')} (from {columns[0]} of {table.shape[1]})"
    if _dense(wrong.reshape(-1)[first:], 0.9) and first > 0:
        unit = "element" if table.shape[0] == 1 or first % table.shape[1] else "row"
        if unit == "row":
            return f"only the last {_count(len(table) - first // table.shape[1], 'row')} (of {len(table)})"
        return f"only the tail: from flat element {first} of {wrong.size} on"
    return ""


def _lines(table: Mask, rows: Array, columns: Array, wrong: Mask) -> str:
    for indices, name, extent, dense in (
        (rows, "row", table.shape[0], table[rows].mean()),
        (columns, "column" if len(table) > 1 else "element", table.shape[1], table[:, columns].mean()),
    ):
        if extent < 2 or len(indices) == extent or dense < 0.5:
            continue
        named = _indices(indices, name, extent)
        if named:
            return named if dense > 0.99 else f"{named} (most of their elements)"
    return ""


def _indices(indices: Array, name: str, extent: int) -> str:
    if len(indices) == 1:
        return f"only {name} {indices[0]} (of {extent})"
    steps = np.diff(indices)
    if (steps == 1).all():
        return f"only {name}s {indices[0]} to {indices[-1]} (of {extent})"
    if (steps == steps[0]).all() and len(indices) > 2:
        ordinal = {2: "second", 3: "third", 4: "fourth"}.get(int(steps[0]), f"{steps[0]}th")
        return f"every {ordinal} {name}, from {indices[0]} on"
    period = _period(indices, extent)
    if period:
        return f"{name}s {', '.join(str(r) for r in np.unique(indices % period)[:4])} of every {period}"
    return f"whole {name}s ({len(indices)} of {extent})"


def _period(indices: Array, extent: int) -> int:
    hit = np.zeros(extent, dtype=bool)
    hit[indices] = True
    for period in range(2, min(_LARGEST_PERIOD, extent // 2) + 1):
        if (hit[period:] == hit[:-period]).all():
            return period
    return 0


def _region(table: Mask, rows: Array, columns: Array, wrong: Mask) -> str:
    box = table[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    if box.size < table.size and _dense(box, 0.5):
        return f"only the tile of rows {rows[0]}-{rows[-1]}, columns {columns[0]}-{columns[-1]}"
    return ""


def _triangle(table: Mask, rows: Array, columns: Array, wrong: Mask) -> str:
    if min(table.shape) <= 2:
        return ""
    lower = np.tril(np.ones(table.shape, dtype=bool), -1)
    for triangle, name in ((lower, "below"), (np.triu(np.ones(table.shape, dtype=bool), 1), "above")):
        if not (table & ~triangle).any() and table[triangle].mean() > 0.9:
            return f"only {name} the diagonal"
    return ""


def _what(got: Array, want: Array, poison: Mask) -> str:
    """Describe the values of the wrong elements."""
    if poison.all():
        return f"never written{_or_written(got)}"
    if got.dtype.kind == "f" and np.isnan(got).all():
        return "NaN"
    if (got == 0).all():
        return "0"
    if len(got) > 2 and _constant(got):
        return f"always {_short(got[0])}"
    close = _close(got, want)
    if close:
        return close
    if len(got) > 3 and np.isfinite(got.astype(np.float64)).all():
        return _scaled(got, want).replace("got is want", "want")
    return ""


def _or_written(got: Array) -> str:
    """Add what else such elements can be: a kernel may write such numbers, too."""
    if got.dtype.kind == "f":
        return ", or made of a local variable that was never set, which the emulator fills with the same NaN"
    return f", or {int(got.reshape(-1)[0])}, which outputs hold before a run"


def _close(got: Array, want: Array) -> str:
    """Say how close the wrong elements are, where they are; return "" otherwise."""
    ours, theirs = got.astype(np.float64), want.astype(np.float64)
    if got.dtype.kind != "f" or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return ""
    share = _distance(ours, theirs) / max(float(np.abs(theirs).max(initial=0.0)), 1e-300)
    if not 0 < share <= _CLOSE:
        return ""
    return f"close to want, within {100 * share:.2g} % of its largest, as by rounding in a lower precision"


def _alike(left: Array, right: Array) -> bool:
    a, b = left.astype(np.float64), right.astype(np.float64)
    if not np.isfinite(b).all():
        return False
    scale = float(np.abs(b).max(initial=0.0))
    spread = float(b.std()) if b.size else 0.0
    return spread > 0 and float(np.abs(a - b).max()) <= _ALIKE * min(scale, spread * 10)


def _dense(mask: Mask, share: float) -> bool:
    return bool(mask.size and mask.mean() >= share)


def _constant(values: Array) -> bool:
    return bool(values.size and (values == values.reshape(-1)[0]).all())


def _count(count: int, noun: str) -> str:
    return noun if count == 1 else f"{count} {noun}s"


def _short(value: float) -> str:
    return f"{float(value):.4g}"
