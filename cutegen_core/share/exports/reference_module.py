"""The reference's own Python inside an exported file, with its class `Model` under another name.

Parameters then initialise exactly as they do in the reference, because it is the reference that initialises them.
"""

from __future__ import annotations

import ast
import io
import tokenize

from cutegen_core.judge import problem_source
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem


def renamed(problem: Problem, name: str) -> str:
    """Return the reference's source with `Model` renamed to `name` and without the workbench's own literals.

    Raises:
        UsageError: `Model` comes from an import, so there is nothing to rename.
    """
    tree = problem_source.parse(problem.source, problem.origin)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any("Model" in (a.name, a.asname) for a in node.names):
            raise UsageError(f"{problem.name}: Model is imported from {node.module}: a file of its own cannot hold it")
    lines = list(io.StringIO(problem.source, newline=None))  # as Python counts them: a form feed ends no line
    for token in reversed(list(tokenize.generate_tokens(iter(lines).__next__))):
        if token.type == tokenize.NAME and token.string == "Model" and not _is_attribute(lines, token):
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + name + line[column + len("Model") :]
    for statement in reversed(tree.body):
        if _is_catalogue_literal(statement):
            del lines[statement.lineno - 1 : statement.end_lineno]
    return "".join(lines).strip("\n") + "\n"


def _is_attribute(lines: list[str], token: tokenize.TokenInfo) -> bool:
    row, column = token.start
    return lines[row - 1][:column].rstrip().endswith(".")


def _is_catalogue_literal(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return bool(targets) and all(isinstance(t, ast.Name) and t.id in problem_source.LITERALS for t in targets)
