"""Read a reference's source without running it: sizes, workloads, tolerance, title.

1. `parse` turns the text into a syntax tree, or reports where it is invalid.
2. `find_size_slots` lists the numbers that a workload may replace: module-level constants, entries of module-level
   dicts, and number literals inside `get_inputs`, `get_init_inputs` and classes.
3. `with_sizes` writes other numbers into those places and keeps every line number.

Nothing here executes the file: it is untrusted Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cutegen_core.machine.python_text import parse_module
from cutegen_core.records.errors import ProblemError

Number = int | float
SizeValue = Number | tuple[int, ...]

_INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")
_LARGEST = 1 << 62
LONGEST_SOURCE = 1 << 18
LITERALS = ("WORKLOADS", "TOLERANCE", "ALLOW", "TITLE", "COMPULSORY", "EXISTING", "ALIAS", "EDITED_FROM")
"""Module-level names that only the workbench reads."""


@dataclass(frozen=True)
class SizeSlot:
    """Place in the source that holds a size.

    Attributes:
        name: "N", "config.hidden" (an entry of a dict), or "get_inputs#2", "Model#2" (its third number literal).
        value: int, float, or a tuple of ints (also for a list).
        derived: computed from other names, so it follows them when they are replaced.
        span: start and end (line, UTF-8 column) of the expression.
        brackets: brackets around a sequence in the source: "()", "[]" or "".
        inside: it stands in a class: many of these numbers are no sizes.
    """

    name: str
    value: SizeValue
    derived: bool
    span: tuple[int, int, int, int]
    brackets: str = ""
    inside: bool = False


class _NotConstantError(Exception):
    """The expression contains more than numbers and known names."""


def parse(source: str, origin: str) -> ast.Module:
    """Return the syntax tree of a reference.

    Raises:
        ProblemError: a syntax error, or `Model` or `get_inputs` is missing; the text names file and line.
    """
    if len(source) > LONGEST_SOURCE:
        raise ProblemError(f"{origin}: larger than {LONGEST_SOURCE >> 10} KiB, which no reference is.")
    try:
        tree = parse_module(source)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""  # Python names none where a character is none
        raise ProblemError(f"{origin}{line}: not valid Python: {error.msg}.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"{origin}: cannot be parsed: {error}.") from error
    defined = _defined_names(tree)
    for needed in ("Model", "get_inputs"):
        if needed not in defined:
            shape = "KernelBench's shape is Model, get_inputs, get_init_inputs"
            raise ProblemError(f"{origin}: has no {needed}{_named_otherwise(tree, needed)}; {shape}.")
    return tree


def _named_otherwise(tree: ast.Module, needed: str) -> str:
    """Return what to do where the file's only module has another name."""
    modules = [n for n in tree.body if isinstance(n, ast.ClassDef) and any("Module" in ast.unparse(b) for b in n.bases)]
    if needed != "Model" or len(modules) != 1:
        return ""
    return f", but the module {modules[0].name}: rename it, or add `Model = {modules[0].name}`"


def find_size_slots(tree: ast.Module) -> Mapping[str, SizeSlot]:
    """Return every place that a workload may replace, by name; the last assignment to a name counts."""
    known: dict[str, SizeValue] = {}
    slots: dict[str, SizeSlot] = {}
    for name, value in _assignments(tree):
        if name in LITERALS:
            continue
        for slot in _slots_of(name, value, known):
            slots[slot.name] = slot
            known[slot.name] = slot.value
    for place in _places(tree):
        inside, negated = isinstance(place, ast.ClassDef), _negated(place)
        for position, node in enumerate(_literals(place)):
            if id(node) in negated:  # -100 marks something, and is no size
                continue
            slot = SizeSlot(f"{place.name}#{position}", _number(node, known), False, _span(node), inside=inside)
            slots[slot.name] = slot
    return slots


def read_literal(tree: ast.Module, name: str, origin: str) -> tuple[object, int] | None:
    """Return the value and line of a module-level literal such as WORKLOADS, or None if the file has none.

    Raises:
        ProblemError: the value is not a plain literal, so reading it would mean running the file.
    """
    value = find_assigned(tree, name)
    if value is None:
        return None
    try:
        return ast.literal_eval(value), value.lineno
    except (ValueError, TypeError, SyntaxError) as error:
        raise ProblemError(
            f"{origin}:{value.lineno}: {name} must be a plain literal (numbers, texts, tuples, lists, dicts): "
            f"it is read without running the file."
        ) from error


def find_assigned(tree: ast.Module, name: str) -> ast.expr | None:
    """Return the first value assigned to a module-level name, or None if the file has no such name."""
    return next((value for target, value in _assignments(tree) if target == name), None)


def read_docstring(tree: ast.Module) -> str:
    """Return the first line of the module's or the model's docstring, or "" if there is none."""
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    text = ast.get_docstring(tree) or (ast.get_docstring(model) if model else None) or ""
    return text.strip().splitlines()[0].strip() if text.strip() else ""


def with_sizes(source: str, slots: Mapping[str, SizeSlot], sizes: Mapping[str, SizeValue]) -> str:
    """Return the source with these sizes in place of its own; line numbers stay.

    Raises:
        KeyError: a name is no slot.
    """
    lines = source.encode().splitlines(keepends=True)
    # one value per place, since `height = width = 32` is one place with two names; last place first keeps columns valid
    by_place = {slots[name].span: (slots[name], value) for name, value in sizes.items()}
    for slot, value in sorted(by_place.values(), key=lambda pair: pair[0].span, reverse=True):
        first, start, last, end = slot.span
        text = _text(value, slot.brackets, last - first).encode()
        head, tail = lines[first - 1][:start], lines[last - 1][end:]
        lines[first - 1 : last] = (head + text + tail).splitlines(keepends=True)
    return b"".join(lines).decode()


def _text(value: SizeValue, brackets: str, extra_lines: int) -> str:
    if isinstance(value, tuple):
        opening, closing = ("[", "]") if brackets == "[]" else ("(", ")")
        inner = ", ".join(repr(v) for v in value) + ("," if len(value) == 1 and opening == "(" else "")
        return opening + inner + "\n" * extra_lines + closing
    return f"({value!r}{chr(10) * extra_lines})" if extra_lines else repr(value)


def _defined_names(tree: ast.Module) -> set[str]:
    names = {name for name, _ in _assignments(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield module-level `name = value` pairs; `a, b = 1, 2` gives two."""
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _pairs(target, statement.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
        return
    parts, values = _elements(target), _elements(value)
    if len(parts) == len(values):
        for part, part_value in zip(parts, values, strict=True):
            yield from _pairs(part, part_value)


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple | ast.List) else []


def _slots_of(name: str, value: ast.expr, known: Mapping[str, SizeValue]) -> Iterator[SizeSlot]:
    if isinstance(value, ast.Dict):
        for key, entry in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from _slots_of(f"{name}.{key.value}", entry, known)
        return
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        for keyword in value.keywords:
            if keyword.arg:
                yield from _slots_of(f"{name}.{keyword.arg}", keyword.value, known)
        return
    try:
        folded = _fold(value, known)
    except _NotConstantError:
        return
    derived = any(isinstance(n, ast.Name) for n in ast.walk(value))
    brackets = "()" if isinstance(value, ast.Tuple) else "[]" if isinstance(value, ast.List) else ""
    yield SizeSlot(name, folded, derived, _span(value), brackets)


def _fold(node: ast.expr, known: Mapping[str, SizeValue]) -> SizeValue:
    if isinstance(node, ast.Tuple | ast.List):
        parts = tuple(_fold(e, known) for e in node.elts)
        if not parts or not all(isinstance(p, int) for p in parts):
            raise _NotConstantError
        return tuple(p for p in parts if isinstance(p, int))
    if isinstance(node, ast.Name):
        if node.id not in known:
            raise _NotConstantError
        return known[node.id]
    return _number(node, known)


def _number(node: ast.expr, known: Mapping[str, SizeValue]) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name) and isinstance(known.get(node.id), int | float):
        return known[node.id]  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        operand = _number(node.operand, known)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        return _arithmetic(node.op, _number(node.left, known), _number(node.right, known))
    raise _NotConstantError


def _arithmetic(operator: ast.operator, left: Number, right: Number) -> Number:
    match operator:
        case ast.Add():
            result: Number = left + right
        case ast.Sub():
            result = left - right
        case ast.Mult():
            result = left * right
        case ast.FloorDiv() if right:
            result = left // right
        case ast.Div() if right:
            result = left / right
        case ast.Mod() if right:
            result = left % right
        case ast.Pow() if abs(left) <= 4096 and 0 <= right <= 64:
            result = left**right
        case ast.LShift() if isinstance(left, int) and isinstance(right, int) and 0 <= right <= 62:
            result = left << right
        case _:
            raise _NotConstantError
    if abs(result) > _LARGEST:
        raise _NotConstantError
    return result


def _places(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the functions and classes whose number literals may be sizes."""
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in _INPUT_FUNCTIONS]
    return [*functions, *(n for n in tree.body if isinstance(n, ast.ClassDef))]


def _literals(place: ast.FunctionDef | ast.ClassDef) -> list[ast.Constant]:
    """Return the int literals of a function or a class in source order, without those in subscripts."""
    subscripts = [n.slice for n in ast.walk(place) if isinstance(n, ast.Subscript)]
    inside_subscript = {id(leaf) for index in subscripts for leaf in ast.walk(index)}
    found = [
        n for n in ast.walk(place)
        if isinstance(n, ast.Constant) and type(n.value) is int and id(n) not in inside_subscript
    ]  # fmt: skip
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _negated(place: ast.AST) -> set[int]:
    """Return the identities of what stands behind a minus sign."""
    return {id(n.operand) for n in ast.walk(place) if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub)}


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
