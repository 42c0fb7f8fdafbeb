"""Name a problem that nobody named by what its text computes: the class or function it is made of, or its operations.

The text is parsed, never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from itertools import count

from cutegen_core.judge import problem_source
from cutegen_core.records.errors import ProblemError

MODEL = "Model"
UNKNOWN = "problem"
_LONGEST, _MOST_WORDS = 40, 3
_NEXT_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ARITHMETIC = {
    ast.MatMult: "matmul", ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.Div: "div", ast.Pow: "pow",
}  # fmt: skip
_SAYS_LITTLE = {"add", "mul", "sub", "div", "pow"}
"""Named only where nothing else is computed: biases and scales are in every model."""
_MOVES = {
    "super", "view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "expand", "expand_as",
    "size", "dim", "flatten", "to", "float", "half", "bfloat16", "type", "clone", "detach", "t", "chunk", "split",
    "int", "len", "range", "tuple", "list", "zeros", "ones", "zeros_like", "ones_like", "empty", "empty_like",
    "Parameter", "tensor", "Sequential", "ModuleList", "Identity", "Dropout", "item", "numel", "print",
    "isinstance", "str",
}  # fmt: skip
"""Calls that compute nothing."""


def name_of(source: str) -> str:
    """Return a name made of the text, `problem` where it says nothing. It need not be free (`unused`)."""
    try:
        tree = problem_source.parse(source, "the text")
    except ProblemError:
        return UNKNOWN
    return _ModelWords(tree).name()


def unused(name: str, taken: Collection[str]) -> str:
    """Return the name, or with the first number behind it that makes it free."""
    return next(n for number in count(1) if (n := name if number == 1 else f"{name}_{number}") not in taken)


class _ModelWords:
    """The words for what a problem's `Model` computes."""

    def __init__(self, tree: ast.Module) -> None:
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self._functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        self._is_called = next(filter(None, map(_assigned_to_model, tree.body)), "")
        self._layers: dict[str, list[str]] = {}
        self._variables: dict[str, str] = {}

    def name(self) -> str:
        if self._is_called and self._is_called != MODEL:
            return _joined([self._is_called])
        model = self._classes.get(MODEL)
        methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)} if model else {}
        if "__init__" in methods:
            self._read_layers(methods["__init__"])
        if "forward" in methods:
            self._read_variables(methods["forward"])
        found = list(self._words(methods["forward"])) if "forward" in methods else []
        own = [word for word in found if word in self._classes or word in self._functions]
        return _joined(own or [word for word in found if word not in _SAYS_LITTLE] or found)

    def _read_layers(self, init: ast.FunctionDef) -> None:
        """Note what each attribute of the model is, also the members of a sequence."""
        for node in ast.walk(init):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                self._layers[node.targets[0].attr] = list(self._words(node.value))

    def _read_variables(self, forward: ast.FunctionDef) -> None:
        """Note the variables, and of which attribute of the model each is a member (`for x in self.blocks`), if any."""
        for node in ast.walk(forward):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._variables.setdefault(node.id, "")
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and _is_of_self(node.iter):
                self._variables[node.target.id] = _called(node.iter)

    def _words(self, node: ast.AST) -> Iterator[str]:
        """Yield what is computed below a node, in the order of the computation."""
        for child in ast.iter_child_nodes(node):
            yield from self._words(child)
        if isinstance(node, ast.Call):
            called = _called(node.func)
            if called in self._layers and _is_of_self(node.func):
                yield from self._layers[called]
            elif isinstance(node.func, ast.Name) and called in self._variables:
                yield from self._layers.get(self._variables[called], ())
            elif called not in _MOVES:
                yield called
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            yield _ARITHMETIC[type(node.op)]


def _assigned_to_model(node: ast.stmt) -> str:
    """Return X of `Model = X`, else ""."""
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == MODEL for t in node.targets):
        return _called(node.value)
    return ""


def _called(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _joined(words: list[str]) -> str:
    """Return the words in lower case, without repetition, as one name that a problem may have."""
    plain = [
        re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word.replace("ReLU", "Relu")).lower()
        for word in words
    ]
    known = [re.sub(r"[^a-z0-9_]", "", word).strip("_") for word in dict.fromkeys(plain)]
    name = "_".join([word for word in known if word][:_MOST_WORDS])[:_LONGEST].strip("_")
    return name if re.match(r"[a-z]", name) else UNKNOWN
