"""Parse Python text, one thread at a time.

CPython 3.11 counts the depth of a tree it builds in one place for all threads (gh-106905): two that parse at once may
meet "SystemError: AST constructor recursion depth mismatch".
"""

from __future__ import annotations

import ast
import threading

_lock = threading.Lock()


def parse_module(text: str) -> ast.Module:
    """Return the tree of a file; SyntaxError, ValueError or RecursionError where it is none."""
    with _lock:
        return ast.parse(text)


def parse_python_expression(text: str) -> ast.expr:
    """Return the tree of an expression; the same errors."""
    with _lock:
        return ast.parse(text, mode="eval").body
