"""Read a problem file's text as a `Problem`: parse it, never run it.

WORKLOADS, TOLERANCE, ALLOW, COMPULSORY, TITLE, EXISTING, ALIAS and EDITED_FROM are module-level literals. Every error
names the file and the line (`line_of`). `edit` writes such texts.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import Any

from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeSlot, SizeValue
from cutegen_core.machine.python_text import parse_module
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Problem, Tolerance, Values, Workload, WorkloadRole

TESTED = (WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
_WORKLOAD_WORDS = ("role", "values", "tolerance")
_OUTPUT = re.compile(r"out\d{0,3}")
_KERNEL_FILE = re.compile(r"[\w.+-]{1,100}\.cu")


def read(source: str, name: str, origin: str) -> Problem:
    """Read the static part of a problem; `workloads` is empty if the text has no WORKLOADS.

    Raises:
        ProblemError: not Python, not KernelBench's form, or a malformed literal.
    """
    return _read(source, name, origin)[0]


def read_with_kernel(source: str, name: str, origin: str) -> tuple[Problem, str]:
    """Read as `read` does; return also the name of the kernel file that the problem begins with, "" if there is none.

    That file stands beside the problem's own.

    Raises:
        ProblemError: as for `read`, or the text names something else than a `.cu` file in the same folder.
    """
    problem, literals = _read(source, name, origin)
    return problem, literals.existing()


def _read(source: str, name: str, origin: str) -> tuple[Problem, _Literals]:
    source = source.removeprefix("\ufeff")  # a paste may begin with a byte order mark
    tree = problem_source.parse(source, origin)
    literals = _Literals(tree, origin)
    workloads = literals.workloads(problem_source.find_size_slots(tree))
    literals.check_compulsory()
    literals.alias()
    title = literals.text("TITLE") or problem_source.read_docstring(tree) or name.replace("_", " ")
    return Problem(name, title, source, origin, workloads, literals.tolerance(), literals.allow()), literals


def read_workloads(literal: str, problem: Problem, origin: str) -> tuple[Workload, ...]:
    """Read further workloads of a problem from a text that holds `WORKLOADS = {...}` alone; lists count as tuples.

    Raises:
        ProblemError: no Python literal, or one that a problem file could not have.
    """
    try:
        tree = parse_module(literal)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise ProblemError(f"{origin}{line}: not a Python literal: {error.msg}.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"{origin}: cannot be parsed: {error}.") from error
    tree = _ListsAsTuples().visit(tree)
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    found = _Literals(tree, origin).workloads(slots)
    asked = problem_source.read_literal(tree, "WORKLOADS", origin)
    names = asked[0] if asked and isinstance(asked[0], dict) else {}
    return tuple(workload for workload in found if workload.name in names)


def edited_from(problem: Problem) -> str:
    """Return the name or path of the problem that this one was edited from; "" for an original."""
    tree = problem_source.parse(problem.source, problem.origin)
    return _Literals(tree, problem.origin).text("EDITED_FROM")


def alias(problem: Problem) -> Mapping[str, str]:
    """Return which input each output replaces where the kernel works in place, by output; for exports and imports.

    Raises:
        ProblemError: ALIAS is malformed.
    """
    return _Literals(problem_source.parse(problem.source, problem.origin), problem.origin).alias()


def line_of(error: ProblemError, origin: str) -> int:
    """Return the line of the problem's text that an error names, or 0."""
    named = re.match(re.escape(origin) + r":(\d+):", str(error))
    return int(named[1]) if named else 0


def sizes_of(problem: Problem) -> Mapping[str, SizeSlot]:
    """Return the sizes that a workload of this problem may set, in the order of the file.

    These are named whole numbers and shapes, and every other size that a workload already sets.
    """
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    used = {name for workload in problem.workloads for name in workload.sizes}
    return {
        name: slot
        for name, slot in slots.items()
        if name in used or not (slot.derived or "#" in name or isinstance(slot.value, float))
    }


class _ListsAsTuples(ast.NodeTransformer):
    """Makes every list a tuple, as a shape is: JSON has lists only."""

    def visit_List(self, node: ast.List) -> ast.Tuple:
        self.generic_visit(node)
        return ast.copy_location(ast.Tuple(node.elts, node.ctx), node)


class _Literals:
    """Reads the module-level literals of a problem; every error names file and line."""

    def __init__(self, tree: ast.Module, origin: str) -> None:
        self._tree, self._origin = tree, origin
        self._line = 0

    def text(self, name: str) -> str:
        value = self._value(name, str)
        return value.strip() if value else ""

    def existing(self) -> str:
        name = self.text("EXISTING")
        if name and not _KERNEL_FILE.fullmatch(name):
            raise self._wrong(f'EXISTING names a kernel file next to this one, such as "norm.cu", not {name!r}')
        return name

    def alias(self) -> Mapping[str, str]:
        given = self._value("ALIAS", dict) or {}
        names = all(isinstance(o, str) and _OUTPUT.fullmatch(o) and isinstance(i, str) for o, i in given.items())
        if not names or len(set(given.values())) < len(given):
            raise self._wrong(
                'ALIAS maps an output to the input that it replaces, each once, such as {"out1": "residual"}'
            )
        return dict(given)

    def allow(self) -> tuple[str, ...]:
        value = self._value("ALLOW", (tuple, list)) or ()
        if not all(isinstance(item, str) for item in value):
            raise self._wrong('ALLOW is a tuple of words such as ("tf32",)')
        return tuple(value)

    def check_compulsory(self) -> None:
        """Check the form of COMPULSORY early; it is evaluated with the bounds (`roofline.work`)."""
        given = self._value("COMPULSORY", dict)
        numbers = all(isinstance(v, int | float | str) and not isinstance(v, bool) for v in (given or {}).values())
        if given is not None and (not given or set(given) - {"bytes", "flops"} or not numbers):
            raise self._wrong(
                'COMPULSORY has "bytes", "flops" or both: numbers, or expressions over the sizes as texts'
            )

    def tolerance(self) -> Mapping[str, Tolerance]:
        return self._tolerances("TOLERANCE", self._value("TOLERANCE", dict) or {})

    def _tolerances(self, place: str, given: Mapping[object, object]) -> Mapping[str, Tolerance]:
        return {str(key): self._tolerance(place, key, entry) for key, entry in given.items()}

    def workloads(self, slots: Mapping[str, SizeSlot]) -> tuple[Workload, ...]:
        given = self._value("WORKLOADS", dict)
        if given is None:
            return ()
        line, lines = self._line, self._entry_lines()
        found = []
        for name, entry in given.items():
            self._line = lines.get(name, self._line)
            found.append(self._workload(name, entry, slots))
        self._line = line
        if not any(w.role in TESTED for w in found):
            raise self._wrong("WORKLOADS has none to test with (role emulator): every kernel would pass, untested")
        if not any(w.role is WorkloadRole.BENCHMARK for w in found):
            found.append(Workload("benchmark", WorkloadRole.BENCHMARK))
        return tuple(found)

    def _entry_lines(self) -> Mapping[str, int]:
        """Return the line of each workload.

        Raises:
            ProblemError: two workloads have the same name; Python would silently drop the first.
        """
        node = problem_source.find_assigned(self._tree, "WORKLOADS")
        lines: dict[str, int] = {}
        for key in node.keys if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._line = key.lineno
                if key.value in lines:
                    raise self._wrong(f"two workloads are called {key.value!r}")
                lines[key.value] = key.lineno
        return lines

    def _workload(self, name: object, entry: object, slots: Mapping[str, SizeSlot]) -> Workload:
        if not isinstance(name, str) or not isinstance(entry, dict):
            raise self._wrong('WORKLOADS maps a name to a dict such as {"role": "emulator", "N": 64}')
        if not name.strip() or "/" in name:
            raise self._wrong(f'workload {name!r} needs a name, without "/"')
        sizes = {k: v for k, v in entry.items() if k not in _WORKLOAD_WORDS}
        for size, value in sizes.items():
            self._check_size(name, size, value, slots)
        try:
            role = WorkloadRole(str(entry.get("role")))
            values = Values(str(entry.get("values", "given")))
        except ValueError as error:
            known = f"roles: {_words(WorkloadRole)}; values: {_words(Values)}"
            raise self._wrong(f"workload {name!r}: {error}; {known}") from error
        tolerance = entry.get("tolerance", {})
        if not isinstance(tolerance, dict):
            raise self._wrong(f"workload {name!r}: its tolerance is a dict as TOLERANCE is")
        return Workload(name, role, sizes, values, self._tolerances(f"workload {name!r}: tolerance", tolerance))

    def _check_size(self, workload: str, name: object, value: object, slots: Mapping[str, SizeSlot]) -> None:
        slot = slots.get(name) if isinstance(name, str) else None
        if slot is None:
            known = ", ".join(n for n in slots if "#" not in n) or "none"
            raise self._wrong(f"workload {workload!r} sets {name!r}, which is no size of this file (sizes: {known})")
        if not _same_kind(slot.value, value):
            raise self._wrong(f"workload {workload!r} sets {name} = {value!r}, but the file has {slot.value!r}")
        if any(new < 1 <= old for old, new in zip(whole_numbers(slot.value), whole_numbers(value), strict=False)):
            raise self._wrong(f"workload {workload!r} sets {name} = {value!r}: a size is at least 1")

    def _tolerance(self, place: str, key: object, entry: object) -> Tolerance:
        known = key in DEFAULT_TOLERANCE or (isinstance(key, str) and _OUTPUT.fullmatch(key))
        if not known or not isinstance(entry, dict):
            names = ", ".join(DEFAULT_TOLERANCE)
            raise self._wrong(
                f"{place} maps an output (out, out0, out1, ...) or one of {names} to a dict with atol and rtol"
            )
        unknown = set(entry) - {"atol", "rtol", "error_multiple"}
        numbers = all(_is_size_of_error(v) for v in entry.values())
        if unknown or not numbers or not {"atol", "rtol"} <= set(entry):
            raise self._wrong(f"{place}[{key!r}] needs atol and rtol (and may have error_multiple), each >= 0")
        return Tolerance(**{k: float(v) for k, v in entry.items()})

    def _value(self, name: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401 - checked against `kind`
        found = problem_source.read_literal(self._tree, name, self._origin)
        if found is None:
            return None
        value, self._line = found
        if not isinstance(value, kind):
            raise self._wrong(f"{name} is a {type(value).__name__}, which it must not be")
        return value

    def _wrong(self, text: str) -> ProblemError:
        return ProblemError(f"{self._origin}:{self._line}: {text}.")


def _same_kind(original: SizeValue, value: object) -> bool:
    if isinstance(original, tuple):
        return isinstance(value, tuple) and len(value) == len(original) and all(type(v) is int for v in value)
    return type(value) is int or (isinstance(original, float) and type(value) is float)


def whole_numbers(value: object) -> tuple[int, ...]:
    """Return the whole numbers of a size."""
    return tuple(v for v in (value if isinstance(value, tuple) else (value,)) if type(v) is int)


def _is_size_of_error(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and math.isfinite(value)


def _words(kind: type[WorkloadRole] | type[Values]) -> str:
    return ", ".join(member.value for member in kind)
