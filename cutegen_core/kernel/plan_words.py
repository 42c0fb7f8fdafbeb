"""Say in a line what a launch plan is, and what another version of it changed: "block 128 → 256, shared 0 → 32 KiB".

Numbers that depend on the file's parameters only are computed with their defaults; other expressions stay as written.
The idea of a file is its title and no part of these words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from cutegen_core.kernel.expressions import ExpressionError, Number, Scope
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.plan_records import LaunchSpec, Located, Parameter
from cutegen_core.records.errors import KernelFileError

ARROW = "→"
UNREADABLE, READABLE_AGAIN = "cannot be read", "can be read again"
MOST_CHANGES = 4
_KIB = 1024
_OF = ": "


class _Statement(NamedTuple):
    """One statement of a plan; `means` is the parameter that it repeats, "" for none."""

    words: str
    means: str = ""


class _Label(NamedTuple):
    """Which launch of a function one is, counted from 1."""

    function: str
    number: int

    def __str__(self) -> str:
        return f"{self.function} {self.number}" if self.number > 1 else self.function


def plan_lines(source: str) -> int:
    """Return how many lines the opening comment takes, which holds the launch plan; 0 without one."""
    end = source.find("*/") if source.lstrip().startswith("/*") else -1
    return source[:end].count("\n") + 1 if end >= 0 else 0


def say_plan(source: str) -> str:
    """Describe a plan: its launches, and the parameters; of one that cannot be read, the reason."""
    try:
        kernel = parse(source)
    except KernelFileError as error:
        return f"{UNREADABLE}: {error}"
    launches = [_in_a_line(launch, kernel.defaults()) for launch in kernel.launches]
    params = [f"{p.name} {_default(p)}" for p in kernel.params]
    return ", ".join([*(launches if len(launches) == 1 else [say_launches(kernel)]), *params])


def say_launches(kernel: KernelFile) -> str:
    """Count the launches by kernel: "7 launches: product x6, bias"."""
    times = Counter(launch.function for launch in kernel.launches)
    return f"{len(kernel.launches)} launches: {', '.join(_times(name, count) for name, count in times.items())}"


def _times(name: str, count: int) -> str:
    return f"{name} x{count}" if count > 1 else name


def say_plan_change(old: str, new: str) -> str:
    """Describe what the plan of `new` changes; "" where both say the same, the reason where it cannot be read."""
    if _plan_text(old) == _plan_text(new):
        return ""
    before, after = _read(old), _read(new)
    if isinstance(after, KernelFileError):
        return f"{UNREADABLE}: {after}"
    if isinstance(before, KernelFileError):
        return READABLE_AGAIN
    common = set(_labels(before)) & set(_labels(after))
    if not common:
        return f"all launches are new: {say_plan(new)}"
    alone = len(common) == len(before.launches) == len(after.launches) == 1
    found = _changes(_facts(before, common, alone=alone), _facts(after, common, alone=alone))
    changes = _named_once(_gathered(found, () if alone else common))
    more = len(changes) - MOST_CHANGES
    return ", ".join([*changes[:MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])


def _read(source: str) -> KernelFile | KernelFileError:
    try:
        return parse(source)
    except KernelFileError as error:
        return error


def _plan_text(source: str) -> str:
    return "\n".join(source.split("\n")[: plan_lines(source)])


def _in_a_line(launch: LaunchSpec, params: Mapping[str, Number]) -> str:
    extents = {"grid": launch.grid, "block": launch.block}
    sizes = [f"{name} {_extents(found, params)}" for name, found in extents.items()]
    shared = f"shared {_bytes(launch.smem, params)}" if launch.smem else ""
    return ", ".join(filter(None, (launch.function, *sizes, shared, "cooperative" if launch.cooperative else "")))


def _changes(before: Mapping[str, _Statement], after: Mapping[str, _Statement]) -> Iterator[str]:
    """Yield what differs; a parameter is left out where another change says the same."""
    differs = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    said = {after[name].means for name in differs if name in after and after[name].means}
    said &= {before[name].means for name in differs if name in before and before[name].means}
    for name in differs:
        if name in said:
            continue
        old, new = before.get(name), after.get(name)
        if old and new:
            yield f"{name} {old.words} {ARROW} {new.words}"
        else:
            yield " ".join(filter(None, (name, new.words, "added"))) if new else f"{name} removed"


def _gathered(changes: Iterable[str], labels: Collection[_Label]) -> Iterator[str]:
    """Say a change that several launches of one kernel have once, with their numbers where others do not have it.

    Args:
        labels: the launches that both plans have.
    """
    by_name = {str(label): label for label in labels}
    launches = Counter(label.function for label in labels)
    found: dict[tuple[str, str], list[int]] = {}
    for change in changes:
        name, _, rest = change.partition(_OF)
        label = by_name.get(name)
        found.setdefault((label.function, rest) if label else ("", change), []).append(label.number if label else 0)
    for (function, change), numbers in found.items():
        if not function:
            yield change
        elif len(numbers) == launches[function]:
            yield f"{function}{_OF}{change}"
        else:
            which = "launches" if len(numbers) > 1 else "launch"
            yield f"{function}, {which} {' and '.join(_runs(numbers))}{_OF}{change}"


def _runs(numbers: Iterable[int]) -> Iterator[str]:
    """Write rising numbers: "1", "3 to 5"."""
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *others = [number for _, number in run]
        yield f"{first} to {others[-1]}" if others else str(first)


def _named_once(changes: Iterable[str]) -> list[str]:
    """Leave out the launch's name where the change before it has the same."""
    found: list[str] = []
    last = ""
    for change in changes:
        label, colon, rest = change.partition(_OF)
        found.append(rest if colon and label == last else change)
        last = label if colon else ""
    return found


def _labels(kernel: KernelFile) -> list[_Label]:
    """Return a name for every launch: its function, numbered where it is launched again."""
    seen: Counter[str] = Counter()
    labels = []
    for launch in kernel.launches:
        seen[launch.function] += 1
        labels.append(_Label(launch.function, seen[launch.function]))
    return labels


def _facts(kernel: KernelFile, common: Collection[_Label], *, alone: bool) -> dict[str, _Statement]:
    """Return every statement of a plan by its name.

    Args:
        common: the launches that both plans have; of another one only its name is said.
        alone: there is one launch, which needs no name.
    """
    params = kernel.defaults()
    found: dict[str, _Statement] = {}
    for label, launch in zip(_labels(kernel), kernel.launches, strict=True):
        if label in common:
            found |= _of_launch(launch, "" if alone else f"{label}{_OF}", params)
    others = Counter(label.function for label in _labels(kernel) if label not in common)
    for name, count in others.items():
        found[f"{f'{count} launches' if count > 1 else 'launch'} of {name}"] = _Statement("")
    found |= {p.name: _Statement(_default(p)) for p in kernel.params}
    found |= {f"values of {p.name}": _Statement(", ".join(map(str, p.values))) for p in kernel.params if p.tunable}
    if kernel.where:
        found["where"] = _Statement(" and ".join(one.expression.text for one in kernel.where))
    found |= {let.name: _Statement(let.value.expression.text) for let in kernel.lets}
    found |= {f"scratch {s.name}": _Statement(f"{s.dtype} [{_texts(s.shape)}]{' zeroed' if s.zero else ''}")
              for s in kernel.scratch}  # fmt: skip
    found |= {f"tensor map {m.name}": _Statement(f"of {m.tensor}, box [{_texts(m.box)}], swizzle {m.swizzle}")
              for m in kernel.tensor_maps}  # fmt: skip
    return found | _of_numerics(kernel)


def _default(parameter: Parameter) -> str:
    """Write "256", or "256 (64 on the emulator)"."""
    apart = "" if parameter.emulator is None else f" ({parameter.emulator} on the emulator)"
    return f"{parameter.default}{apart}"


def _of_launch(launch: LaunchSpec, name: str, params: Mapping[str, Number]) -> dict[str, _Statement]:
    found = {
        f"{name}block": _Statement(_extents(launch.block, params), _repeats(launch.block, params)),
        f"{name}grid": _Statement(_extents(launch.grid, params), _repeats(launch.grid, params)),
        f"{name}shared": _Statement(_bytes(launch.smem, params) if launch.smem else "0"),
        f"{name}arguments": _Statement(_texts(launch.args)),
    }
    if "<" in launch.kernel:
        found[f"{name}template arguments"] = _Statement(launch.kernel.partition("<")[2].removesuffix(">"))
    if launch.cluster:
        found[f"{name}cluster"] = _Statement(_extents(launch.cluster, params))
    if launch.once:
        found[f"{name}once"] = _Statement("")
    if launch.cooperative:
        found[f"{name}cooperative launch"] = _Statement("")
    if launch.when:
        found[f"{name}when"] = _Statement(launch.when.expression.text)
    return found


def _of_numerics(kernel: KernelFile) -> dict[str, _Statement]:
    numerics = kernel.numerics
    return {
        "accumulation": _Statement(numerics.accumulate or "not declared"),
        "deterministic": _Statement("yes" if numerics.deterministic else "no"),
        "allowed": _Statement(", ".join(numerics.allow) or "nothing"),
        "reads": _Statement(", ".join(numerics.reads) or "nothing"),
    }


def _extents(extents: Sequence[Located], params: Mapping[str, Number]) -> str:
    values = [_value(one, params) for one in extents]
    while len(values) > 1 and values[-1] == "1":
        values.pop()
    return " x ".join(values)


def _repeats(extents: Sequence[Located], params: Mapping[str, Number]) -> str:
    """Return the parameter that is the whole of these extents."""
    text = extents[0].expression.text.strip()
    return text if len(extents) == 1 and text in params else ""


def _bytes(size: Located, params: Mapping[str, Number]) -> str:
    words = _value(size, params)
    if not words.isdecimal():
        return f"{words} B"
    count = int(words)
    return f"{count / _KIB:g} KiB" if count >= _KIB else f"{count} B"


def _value(one: Located, params: Mapping[str, Number]) -> str:
    try:
        return str(one.expression.evaluate(Scope(numbers=params)))
    except ExpressionError:
        return one.expression.text.strip()


def _texts(listed: Sequence[Located]) -> str:
    return ", ".join(one.expression.text.strip() for one in listed)
