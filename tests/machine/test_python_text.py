"""Threads that parse at once do not disturb one another."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cutegen_core.machine.python_text import parse_module, parse_python_expression

TEXT = Path(ast.__file__).read_text()


def test_threads_parse_at_once():
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse_module, [TEXT] * 24))
    assert len({len(tree.body) for tree in trees}) == 1


def test_what_is_no_python_is_said():
    with pytest.raises(SyntaxError):
        parse_module("class")
    with pytest.raises(SyntaxError):
        parse_python_expression("x = 1")
