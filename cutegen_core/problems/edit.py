"""Edit a problem file's text: replace workloads or tolerance, and describe the changes in words.

1. `parse_sizes` and `parse_size` read sizes as a person types them.
2. `with_workloads`, `with_tolerance`, `with_existing` and `with_edited_from` replace one literal and leave every other
   character alone.
   `read.read` reports errors in the new values, as for any other text.
3. `list_changes` compares an edited problem with its original.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.problems import read
from cutegen_core.problems.other_sizes import choose_other_sizes, count_elements
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import (
    DEFAULT_TOLERANCE,
    Problem,
    Tolerance,
    Values,
    Workload,
    WorkloadRole,
    list_sizes,
)
from cutegen_core.records.wording import counted

_SIZE = re.compile(r"\s*([\w.#]+)\s*=\s*(\([^()]*\)|[^,()=]+)\s*(?:,|$)")


def parse_sizes(text: str) -> Mapping[str, SizeValue]:
    """Parse sizes as a person types them: `batch_size = 7, shape = (3, 64)`.

    Raises:
        ProblemError: the text has another form.
    """
    sizes: dict[str, SizeValue] = {}
    at = 0
    while at < len(text.rstrip()):
        found = _SIZE.match(text, at)
        if not found:
            raise ProblemError(f"{text[at:].strip()!r} is no size: write name = number, separated by commas.")
        sizes[found[1]] = parse_size(found[1], found[2])
        at = found.end()
    return sizes


def parse_size(name: str, text: str) -> SizeValue:
    """Parse a number, or numbers in brackets, from the text of a field.

    Raises:
        ProblemError: the text has another form.
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ProblemError(f"{name} = {text.strip()!r} is no number.") from error
    value = tuple(value) if isinstance(value, list | tuple) else value
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(type(number) is int or (type(number) is float and math.isfinite(number)) for number in numbers):
        raise ProblemError(f"{name} = {text.strip()!r} is no number.")
    return value


def change_workload(problem: Problem, name: str, change: Callable[[Workload], Workload | None]) -> Problem:
    """Return the problem with that workload changed or removed.

    Raises:
        ProblemError: there is none of that name.
    """
    if all(workload.name != name for workload in problem.workloads):
        raise ProblemError(f"there is no workload {name!r} any more.")
    made = (change(workload) if workload.name == name else workload for workload in problem.workloads)
    return replace(problem, workloads=tuple(workload for workload in made if workload is not None))


def add_test_workload(problem: Problem) -> Problem:
    """Return the problem with one more test in front of the timed workloads.

    The test is slightly larger than the largest emulator workload and, if possible, has sizes that no other workload
    has.
    """
    names = {workload.name for workload in problem.workloads}
    name = next(f"test {n}" for n in count(1) if f"test {n}" not in names)
    timed = problem.with_role(WorkloadRole.BENCHMARK)
    others = tuple(workload for workload in problem.workloads if workload not in timed)
    own = {size: slot.value for size, slot in read.sizes_of(problem).items()}
    small = [workload.sizes for workload in problem.with_role(WorkloadRole.EMULATOR) or others]
    sizes = choose_other_sizes(max(small, key=count_elements, default={}), own, [w.sizes for w in problem.workloads])
    return replace(problem, workloads=(*others, Workload(name, WorkloadRole.EMULATOR, sizes), *timed))


def rewrite(source: str, old: Problem, new: Problem) -> str:
    """Return the text of `old` with the workloads and tolerances of `new`, where they differ."""
    if new.workloads != old.workloads:
        source = with_workloads(source, new.workloads)
    return source if new.tolerance == old.tolerance else with_tolerance(source, new.tolerance)


def with_workloads(source: str, workloads: Sequence[Workload]) -> str:
    """Return the text with these workloads.

    Raises:
        ProblemError: two have the same name; `read` reports all other errors.
    """
    twice = [name for name, times in Counter(w.name for w in workloads).items() if times > 1]
    if twice:
        raise ProblemError(f"two workloads are called {twice[0]!r}: a verdict could not say which it means.")
    return _with_literal(source, "WORKLOADS", workloads_literal(workloads))


def workloads_literal(workloads: Sequence[Workload]) -> str:
    """Return the workloads as the dict that a problem file has, one on a line."""
    rows = "".join(f"    {_quoted(w.name)}: {_entry(w)},\n" for w in workloads)
    return f"{{\n{rows}}}" if rows else "{}"


def with_tolerance(source: str, tolerance: Mapping[str, Tolerance]) -> str:
    """Return the text with these tolerances; outputs that neither name nor dtype says have the default ones."""
    return _with_literal(source, "TOLERANCE", _tolerances_text(tolerance))


def with_existing(source: str, file: str) -> str:
    """Return the text with the file name of its existing kernel; "" for none."""
    if not file and problem_source.find_assigned(problem_source.parse(source, "the text"), "EXISTING") is None:
        return source
    return _with_literal(source, "EXISTING", _quoted(file))


def with_edited_from(source: str, original: str) -> str:
    """Return the text with the name of the problem that it was edited from."""
    return _with_literal(source, "EDITED_FROM", _quoted(original))


def list_changes(original: Problem, edited: Problem) -> tuple[str, ...]:
    """List the differences, one line each; empty if both problems judge kernels alike."""
    return (*_workload_changes(original, edited), *_other_changes(original, edited))


def _entry(workload: Workload) -> str:
    words = {"role": workload.role.value, **workload.sizes}
    if workload.values is not Values.GIVEN:
        words["values"] = workload.values.value
    entries = [f"{_quoted(k)}: {_value_text(v)}" for k, v in words.items()]
    if workload.tolerance:
        entries.append(f'"tolerance": {_tolerances_text(workload.tolerance)}')
    return "{" + ", ".join(entries) + "}"


def _tolerances_text(tolerance: Mapping[str, Tolerance]) -> str:
    return "{" + ", ".join(f"{_quoted(key)}: {_tolerance_text(t)}" for key, t in tolerance.items()) + "}"


def _tolerance_text(tolerance: Tolerance) -> str:
    words = {"atol": tolerance.atol, "rtol": tolerance.rtol}
    if tolerance.error_multiple != Tolerance(0.0, 0.0).error_multiple:
        words["error_multiple"] = tolerance.error_multiple
    return "{" + ", ".join(f"{_quoted(k)}: {v!r}" for k, v in words.items()) + "}"


def _value_text(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """Return a Python literal in double quotes; unprintable characters are escaped, so that the file hides nothing."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain) + '"'


def _with_literal(source: str, name: str, text: str) -> str:
    """Return the text with this value of a module-level literal; a new literal goes below the imports."""
    tree = problem_source.parse(source, "the text")
    lines = source.encode().splitlines(keepends=True)
    node = problem_source.find_assigned(tree, name)
    if node is not None:
        assert node.end_lineno is not None
        head, tail = lines[node.lineno - 1][: node.col_offset], lines[node.end_lineno - 1][node.end_col_offset :]
        lines[node.lineno - 1 : node.end_lineno] = [head + text.encode() + tail]
    else:
        above = _end_of_head(tree)
        blank = b"" if above and lines[above - 1].strip() and _is_literal_at(tree, above) else b"\n"
        lines.insert(above, blank + f"{name} = {text}\n".encode())
    return b"".join(lines).decode()


def _end_of_head(tree: ast.Module) -> int:
    """Return the last line of the docstring, imports and literals at the top of the file; 0 if there are none."""
    end = 0
    for statement in tree.body:
        documents = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (documents or isinstance(statement, ast.Import | ast.ImportFrom) or _names_literal(statement)):
            break
        end = statement.end_lineno or end
    return end


def _is_literal_at(tree: ast.Module, line: int) -> bool:
    return any(_names_literal(statement) and statement.end_lineno == line for statement in tree.body)


def _names_literal(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id in problem_source.LITERALS for target in targets)


# -- list of changes ---------------------------------------------------------------------------------------------------


def _workload_changes(original: Problem, edited: Problem) -> Iterator[str]:
    old, new = ({w.name: w for w in p.workloads} for p in (original, edited))
    for name in new:
        if name not in old:
            yield f"workload {name} added: {describe_workload(new[name])}"
        elif old[name] != new[name]:
            yield f"workload {name}: {describe_workload(old[name])} → {describe_workload(new[name])}"
    yield from (f"workload {name} removed: {describe_workload(old[name])}" for name in old if name not in new)


def describe_workload(workload: Workload) -> str:
    """Describe a workload in a few words."""
    sizes = list_sizes(workload.sizes) or "sizes as in the file"
    values = "" if workload.values is Values.GIVEN else f", {workload.values.value.replace('_', ' ')} values"
    own = "".join(f", {key}: {describe_tolerance(t)}" for key, t in workload.tolerance.items())
    return f"{workload.role.value}, {sizes}{values}{own}"


def _other_changes(original: Problem, edited: Problem) -> Iterator[str]:
    yield from _tolerance_changes(original, edited)
    if original.allow != edited.allow:
        yield f"allowed relaxations: {', '.join(original.allow) or 'none'} → {', '.join(edited.allow) or 'none'}"
    if _compulsory(original) != _compulsory(edited):
        yield "what it says no kernel can avoid (COMPULSORY)"
    if original.existing != edited.existing:
        yield _existing_change(original.existing, edited.existing)
    if _code(original) != _code(edited):
        yield "the reference itself"


def _tolerance_changes(original: Problem, edited: Problem) -> Iterator[str]:
    for dtype in DEFAULT_TOLERANCE:
        old, new = original.tolerance_for(dtype), edited.tolerance_for(dtype)
        for field in ("atol", "rtol", "error_multiple"):
            if getattr(old, field) != getattr(new, field):
                yield f"{dtype} {field.replace('_', ' ')}: {getattr(old, field):g} → {getattr(new, field):g}"
    for output in sorted({*original.tolerance, *edited.tolerance} - set(DEFAULT_TOLERANCE)):
        one, other = (problem.tolerance.get(output) for problem in (original, edited))
        if one != other:
            yield f"{output}: {describe_tolerance(one)} → {describe_tolerance(other)}"


def describe_tolerance(tolerance: Tolerance | None) -> str:
    """Describe a tolerance in a few words; None is that of the output's dtype."""
    if tolerance is None:
        return "as its dtype"
    return f"atol {tolerance.atol:g}, rtol {tolerance.rtol:g}, error multiple {tolerance.error_multiple:g}"


def _existing_change(old: str, new: str) -> str:
    if not old:
        return f"existing kernel added: {counted(len(new.splitlines()), 'line')}"
    if not new:
        return "existing kernel removed"
    return f"existing kernel: another one, {counted(len(new.splitlines()), 'line')}"


def _compulsory(problem: Problem) -> str:
    node = problem_source.find_assigned(problem_source.parse(problem.source, problem.origin), "COMPULSORY")
    return ast.dump(node) if node else ""


def _code(problem: Problem) -> list[str]:
    """Return the statements that run, without positions, comments and the literals that are only read."""
    tree = problem_source.parse(problem.source, problem.origin)
    return [ast.dump(s) for s in tree.body if not _names_literal(s)]
