"""Read a reference's source without running it: sizes, workloads, tolerance, title.

1. `parse` turns the text into a syntax tree, or reports where it is invalid.
2. `find_size_slots` lists the numbers that a workload may replace: module-level constants, entries of module-level
   dicts, and number literals inside `get_inputs`, `get_init_inputs`, classes and other module-level values.
3. `with_sizes` writes other numbers into those places and keeps every line number.

Nothing here executes the file: it is untrusted Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cutegen_core.machine.python_text import parse_module
from cutegen_core.records.errors import ProblemError

Number = int | float
SizeValue = Number | tuple[int, ...]

_INPUTS = "get_inputs"
_INPUT_FUNCTIONS = (_INPUTS, "get_init_inputs")
_LARGEST, _LONGEST = 1 << 62, 1 << 12
_MOST_LITERALS = 64
"""Of a value that is no expression of sizes: one with more of them is data."""
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "int": int, "float": float, "round": round, "abs": abs, "len": len, "max": max, "min": min, "sum": sum,
}  # fmt: skip
"""Python's own functions that sizes are computed by."""
LONGEST_SOURCE = 1 << 18
LITERALS = ("WORKLOADS", "TOLERANCE", "ALLOW", "TITLE", "COMPULSORY", "EXISTING", "ALIAS", "EDITED_FROM")
"""Module-level names that only the workbench reads."""


IN_INPUTS = "get_inputs#"
"""How the names of numbers inside of `get_inputs` begin."""


@dataclass(frozen=True)
class SizeSlot:
    """Place in the source that holds a size.

    Attributes:
        name: "N", "config.hidden" (an entry of a dict), or "get_inputs#2", "Model#2", "layers#2" (its third number
            literal).
        value: int, float, or a tuple of ints (also for a list).
        derived: computed from other names, so it follows them when they are replaced.
        span: start and end (line, UTF-8 column) of the expression.
        brackets: of a sequence: "()", "[]", or "" where there are none.
        inside: it stands in a class or a call, or is an input itself: many of these numbers are no sizes.
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
    inputs = _only_inputs(tree)
    for name, value in _assignments(tree):
        if name in LITERALS:
            continue
        for slot in _slots_of(name, value, known):
            slots[slot.name] = replace(slot, inside=slot.inside or name in inputs)
            known[slot.name] = slot.value
    for place in _places(tree):
        slots |= {s.name: s for s in _literal_slots(place.name, place, inside=isinstance(place, ast.ClassDef))}
    return slots


def find_input_slots(tree: ast.Module, slots: Mapping[str, SizeSlot]) -> set[str]:
    """Return the names of those of these slots that `get_inputs` uses itself."""
    made = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == _INPUTS]
    used = {n.id for function in made for n in ast.walk(function) if isinstance(n, ast.Name)}
    return {name for name in slots if name.startswith(IN_INPUTS) or name.partition(".")[0] in used}


def numbers_of(size: SizeValue) -> tuple[Number, ...]:
    """Return the numbers of a size: those of a tuple, or itself."""
    return size if isinstance(size, tuple) else (size,)


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

    Of a value and a number within it, the value counts.

    Raises:
        KeyError: a name is no slot.
    """
    lines = source.encode().splitlines(keepends=True)
    # one value per place, since `height = width = 32` is one place with two names; last place first keeps columns valid
    by_place = {slots[name].span: (slots[name], value) for name, value in sizes.items()}
    by_place = {span: at for span, at in by_place.items() if not any(_lies_in(span, other) for other in by_place)}
    for slot, value in sorted(by_place.values(), key=lambda pair: pair[0].span, reverse=True):
        first, start, last, end = slot.span
        text = _text(value, slot.brackets, last - first).encode()
        head, tail = lines[first - 1][:start], lines[last - 1][end:]
        lines[first - 1 : last] = (head + text + tail).splitlines(keepends=True)
    return b"".join(lines).decode()


def _lies_in(span: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    return span != other and other[:2] <= span[:2] and span[2:] <= other[2:]


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
        if len(_literals(value)) <= _MOST_LITERALS:
            yield from _literal_slots(name, value, inside=True)
        return
    derived = any(isinstance(n, ast.Name) and n.id in known for n in ast.walk(value))
    yield SizeSlot(name, folded, derived, _span(value), _brackets(value))
    if derived:  # `shape = (batch, 4096)` has a number of its own
        yield from _literal_slots(name, value, inside=False)


def _literal_slots(name: str, place: ast.AST, *, inside: bool) -> Iterator[SizeSlot]:
    """Yield the int literals of a function, a class or a value, by their number in it."""
    negated, returned = _negated(place), _returned(place) if name == _INPUTS else set()
    for position, node in enumerate(_literals(place)):
        if id(node) not in negated:  # -100 marks something, and is no size
            alone = inside or id(node) in returned
            yield SizeSlot(f"{name}#{position}", _number(node, {}), False, _span(node), inside=alone)


def _brackets(node: ast.expr) -> str:
    """Return the brackets of a sequence that is written out, repeated or joined."""
    if isinstance(node, ast.BinOp):
        return _brackets(node.left) or _brackets(node.right)
    return "()" if isinstance(node, ast.Tuple) else "[]" if isinstance(node, ast.List) else ""


def _fold(node: ast.expr, known: Mapping[str, SizeValue]) -> SizeValue:
    """Return the value of an expression of numbers, sequences of them and known names."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Tuple() | ast.List() if node.elts:
            return _joined(_fold_element(element, known) for element in node.elts)
        case ast.UnaryOp(op=ast.USub()):
            return -_number(node.operand, known)
        case ast.UnaryOp(op=ast.UAdd()):
            return _number(node.operand, known)
        case ast.BinOp():
            return _binary(node.op, _fold(node.left, known), _fold(node.right, known))
        case ast.Call(func=ast.Name(id=function), keywords=[]) if function in _FUNCTIONS:
            return _called(function, [_fold(argument, known) for argument in node.args])
    raise _NotConstantError


def _number(node: ast.expr, known: Mapping[str, SizeValue]) -> Number:
    value = _fold(node, known)
    if isinstance(value, tuple):
        raise _NotConstantError
    return value


def _fold_element(node: ast.expr, known: Mapping[str, SizeValue]) -> tuple[int, ...]:
    """Return what an element of a sequence adds to it: a whole number, or those of a sequence behind a star."""
    value = _fold(node.value if isinstance(node, ast.Starred) else node, known)
    if isinstance(node, ast.Starred) and isinstance(value, tuple):
        return value
    if isinstance(node, ast.Starred) or not isinstance(value, int):
        raise _NotConstantError
    return (value,)


def _joined(parts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    found: tuple[int, ...] = ()
    for part in parts:
        if len(found) + len(part) > _LONGEST:
            raise _NotConstantError
        found += part
    return found


def _called(function: str, values: list[SizeValue]) -> Number:
    try:
        found = _FUNCTIONS[function](*values)
    except (TypeError, ValueError, OverflowError) as error:
        raise _NotConstantError from error
    if type(found) not in (int, float) or abs(found) > _LARGEST:
        raise _NotConstantError
    return found


def _binary(operator: ast.operator, left: SizeValue, right: SizeValue) -> SizeValue:
    """Return what is computed of two numbers; sequences are repeated and joined, as Python does."""
    if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(operator, ast.Add):
        return _joined((left, right))
    if isinstance(left, int) and isinstance(right, tuple):
        left, right = right, left
    if isinstance(left, tuple):
        if not (isinstance(operator, ast.Mult) and isinstance(right, int) and 0 < len(left) * right <= _LONGEST):
            raise _NotConstantError
        return left * right
    if isinstance(right, tuple):
        raise _NotConstantError
    return _arithmetic(operator, left, right)


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


def _literals(place: ast.AST) -> list[ast.Constant]:
    """Return the int literals of a function, a class or a value in source order.

    Left out are those of subscripts, though not of calls in them (`x[torch.rand(8, 210) < 0.1]`), and the defaults of a
    model's `forward`, which a plan has no names for.
    """
    nodes = list(ast.walk(place))
    left_out = {id(leaf) for n in nodes if isinstance(n, ast.Subscript) for leaf in _walk_to_calls(n.slice)}
    if isinstance(place, ast.ClassDef):
        forwards = [n.args for n in place.body if isinstance(n, ast.FunctionDef) and n.name == "forward"]
        defaults = [d for given in forwards for d in (*given.defaults, *given.kw_defaults) if d is not None]
        left_out |= {id(leaf) for default in defaults for leaf in ast.walk(default)}
    found = [n for n in nodes if isinstance(n, ast.Constant) and type(n.value) is int and id(n) not in left_out]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _walk_to_calls(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what lies below it, down to calls."""
    if not isinstance(node, ast.Call):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _walk_to_calls(child)


def _negated(place: ast.AST) -> set[int]:
    """Return the identities of what stands behind a minus sign."""
    return {id(n.operand) for n in ast.walk(place) if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub)}


def _only_inputs(tree: ast.Module) -> set[str]:
    """Return the names that are used for nothing but inputs themselves."""
    made = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == _INPUTS]
    inputs = {each for function in made for each in _returned(function)}
    uses: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id] = uses.get(node.id, True) and id(node) in inputs
    return {name for name, only in uses.items() if only}


def _returned(place: ast.AST) -> set[int]:
    """Return the ids of the elements of what a function returns: a number among them is an input, such as a step."""
    returns = (node.value for node in ast.walk(place) if isinstance(node, ast.Return) and node.value)
    return {id(element) for value in returns for element in _elements(value)}


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
