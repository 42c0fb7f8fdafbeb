"""Read the TOML of a plan so that every error names a line.

1. `KeyLines` finds the line of each key, because tomllib keeps no lines.
2. The functions below read tables, names and expressions for all sections; expressions are parsed, not evaluated.
"""

from __future__ import annotations

import contextlib
import keyword
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from cutegen_core.kernel.expressions import (
    FUNCTIONS,
    ExpressionError,
    ExpressionTooLargeError,
    parse_expression,
    suggest_name,
)
from cutegen_core.kernel.plan_records import DEVICE_NAMES, Located
from cutegen_core.records.errors import KernelFileError, KernelFileTooLargeError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CPP_WORDS = frozenset(
    """
    alignas alignof and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto half if inline int long main mutable namespace new noexcept not_eq nullptr operator
    or_eq private protected public register reinterpret_cast return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905 - a list of 90 quoted words is harder to read
)
"""Words of C++ that no name may be; those that Python keeps, too, are refused before."""
MAX_TABLES = {"launch": 1024, "scratch": 1024, "tensormap": 32}
_MAX_NAME = 64


class KeyLines:
    """Line numbers of headers and keys, found at the start of each line."""

    _HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(#.*)?$")
    _KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")

    def __init__(self, toml: str, first_line: int) -> None:
        self.first_line = first_line
        self.lines: dict[tuple[str, int, str], int] = {}
        counts: dict[str, int] = {}
        section, index = "", 0
        for number, text in enumerate(toml.split("\n"), first_line):
            if header := self._HEADER.match(text.rstrip("\r")):
                section = header[2]
                counts[section] = counts.get(section, -1) + 1
                index = counts[section]
                self.lines.setdefault((section, index, ""), number)
            elif key := self._KEY.match(text):
                self.lines.setdefault((section, index, key[1]), number)

    def at(self, section: str, index: int = 0, key: str = "") -> int:
        """Return the line of a key, or else of its section, or of a top-level key of that name."""
        for place in ((section, index, key), (section, index, ""), ("", 0, section), ("", 0, key)):
            if place in self.lines:
                return self.lines[place]
        return self.first_line


def load_toml(toml: str, where: KeyLines) -> dict[str, Any]:
    """Parse the comment's tables. Raise KernelFileError if malformed, as do all functions below."""
    try:
        return tomllib.loads(toml.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        line = where.first_line + (int(found[1]) - 1 if found else _count_valid_lines(toml))
        reason = re.sub(r"\s*\(at [^)]*\)$", "", str(error))
        raise KernelFileError(f"the plan is not valid TOML: {reason}", line) from error
    except ValueError as error:  # an impossible date, an integer of thousands of digits
        raise KernelFileError(f"the plan is not valid TOML: {error}", where.first_line) from error


def _count_valid_lines(toml: str) -> int:
    """Count the leading lines that are valid TOML: an unclosed string or list begins on the next line."""
    lines = toml.split("\n")[:100]
    for count in range(len(lines) - 1, 0, -1):
        with contextlib.suppress(ValueError, RecursionError):
            tomllib.loads("\n".join(lines[:count]))
            return count
    return 0


def read_table(data: Mapping[str, Any], name: str, where: KeyLines) -> dict[str, Any]:
    """Return the section [name]; empty if there is none.

    Raises:
        KernelFileError: it is no single table.
    """
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise KernelFileError(f"[{name}] must be one table, written [{name}]", where.at(name))
    return table


def read_tables(data: Mapping[str, Any], name: str, where: KeyLines) -> list[dict[str, Any]]:
    """Return the sections [[name]].

    Raises:
        KernelFileTooLargeError: there are too many.
        KernelFileError: it is no list of tables.
    """
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise KernelFileError(f"[{name}] must be written [[{name}]]: there can be several", where.at(name))
    if len(tables) > MAX_TABLES[name]:
        text = f"the plan has {len(tables)} [[{name}]] sections; at most {MAX_TABLES[name]} are possible"
        raise KernelFileTooLargeError(text, where.at(name, MAX_TABLES[name]))
    return tables


def check_keys(
    table: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], what: str, at: Mapping[str, int]
) -> None:
    """Refuse an unknown key and a missing required key.

    Raises:
        KernelFileError: with the line, and the nearest known key.
    """
    for key in table:
        if key not in known:
            raise KernelFileError(f"unknown key '{key}' in {what}{suggest_name(key, known)}", at[key])
    for key in needed:
        if key not in table:
            raise KernelFileError(f"{what} has no '{key}'", at[""])


def read_expression(value: object, line: int, what: str) -> Located:
    """Read a number, or an expression in quotes.

    Raises:
        KernelFileError: it is neither, or cannot be read.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise KernelFileError(f"{what} must be a finite number, not {value}", line)
    if isinstance(value, int | float):
        value = repr(value)
    if not isinstance(value, str):
        raise KernelFileError(f"{what} must be a number or an expression in quotes, not {type(value).__name__}", line)
    try:
        return Located(parse_expression(value), line)
    except ExpressionError as error:
        kind = KernelFileTooLargeError if isinstance(error, ExpressionTooLargeError) else KernelFileError
        raise kind(f"{what}: {error}", line) from error


def read_expressions(value: object, line: int, what: str, most: int) -> tuple[Located, ...]:
    """Read a list of at most `most` expressions.

    Raises:
        KernelFileError: it is no list, or an expression in it cannot be read.
        KernelFileTooLargeError: it is too long, or an expression in it is.
    """
    if not isinstance(value, list):
        raise KernelFileError(f'{what} must be a list, such as ["ceil_div(n, 256)"]', line)
    if len(value) > most:
        raise KernelFileTooLargeError(f"{what} has {len(value)} entries (at most {most})", line)
    return tuple(read_expression(v, line, what) for v in value)


def check_name(name: str, kind: str, line: int) -> None:
    """Raise KernelFileError unless `name` is a valid name in expressions and a valid C++ identifier."""
    if len(name) > _MAX_NAME:
        raise KernelFileError(
            f"the name of a {kind} has {len(name)} characters; at most {_MAX_NAME} are possible", line
        )
    if not _IDENTIFIER.fullmatch(name) or name in CPP_WORDS or keyword.iskeyword(name) or name.startswith("__"):
        raise KernelFileError(f"'{name}' cannot be the name of a {kind}: use letters, digits and _, no keyword", line)
    if name in FUNCTIONS or name in DEVICE_NAMES:
        raise KernelFileError(f"'{name}' already has a meaning in expressions; give the {kind} another name", line)
