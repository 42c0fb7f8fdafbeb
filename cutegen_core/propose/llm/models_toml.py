"""Rewrite `models.toml` as a person wrote it: comments, order and what has not changed stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import InlineTable, Item, Table, Whitespace

from cutegen_core.records.errors import UsageError

Fields = Mapping[str, Any]
"""What a model's table holds, by key; None for what it must not hold."""


def rewritten(text: str, models: Mapping[str, Fields], roles: Mapping[str, str], defaults: Fields) -> str:
    """Return the text, changed to hold these models, in this order, and roles.

    Args:
        defaults: what a key means that a table leaves out; a new table leaves nothing out.

    Raises:
        UsageError: a value holds a null.
        ValueError: the text is not TOML.
    """
    document = tomlkit.parse(text)
    _write_models(document, models, defaults)
    _write_roles(document, roles)
    return tomlkit.dumps(document)


def _write_models(document: tomlkit.TOMLDocument, models: Mapping[str, Fields], defaults: Fields) -> None:
    """Change, add and drop tables where they stand; all move to the end of the file where another order is wanted."""
    found = document.get("models", {})
    tables = {name: table for name, table in found.items() if isinstance(table, Table)}
    wanted, there = list(models), list(found)
    if len(wanted) == len(there):  # a model that is called something else now keeps what its table says
        renamed = zip(wanted, there, strict=True)
        tables |= {new: tables[old] for new, old in renamed if new not in found and old not in wanted and old in tables}
    written = {name: _updated(tables.get(name), values, defaults) for name, values in models.items()}
    stay = [name for name in there if name in wanted]
    if isinstance(found, Table) and all(name in tables for name in there) and wanted[: len(stay)] == stay:
        _drop(found, [name for name in there if name not in wanted])
        for name in wanted[len(stay) :]:
            heading = _heading_below(found)
            found.append(name, written[name])
            _add(found, heading)
        return
    if "models" in document:
        document.remove("models")
    if written:
        everything = tomlkit.table(is_super_table=True)
        for name, table in written.items():
            everything.append(name, table)
        document.append("models", everything)


def _drop(tables: Table, names: Sequence[str]) -> None:
    """Remove the tables; what is said below one about the next table stays, where a table before it can keep it."""
    before: Table | None = None
    for name, table in list(tables.items()):
        if name in names:
            heading = _heading_below(table)
            tables.remove(name)
            if before is not None:
                _add(before, heading)
        else:
            before = table


def _updated(table: Table | None, values: Fields, defaults: Fields) -> Table:
    """Return the table with what has changed in it; a new one says everything, also what is a default."""
    if table is None:
        table = tomlkit.table()
        for key, value in values.items():
            if value is not None:
                table.append(key, _item(value))
        table.add(tomlkit.nl())
        return table
    for key, value in values.items():
        if value is None:
            table.pop(key, None)
        elif key in table and isinstance(table[key], Table) and not _same(table[key], value):
            table.remove(key)  # a table of its own, below; in one line it must stand above
            table.append(key, _item(value))
        elif key in table:
            if not _same(table[key], value):
                table[key] = _item(value)
        elif value != defaults.get(key):
            remarks = _remarks_below(table)
            table.append(key, _item(value))
            _add(table, remarks)
    return table


def _remarks_below(table: Table) -> list[Item]:
    """Take the comments and blank lines off the end of a table. The last of them may be about the table that follows:
    what is added to this one belongs above them."""
    lines, taken = table.value.body, []
    while lines and lines[-1][0] is None:
        taken.append(lines.pop()[1])
    return taken[::-1]


def _heading_below(table: Table) -> list[Item]:
    """Take the comment that stands below a table and, after a blank line, right above the next header."""
    below = table
    while below.value.body and isinstance(last := below.value.body[-1][1], Table):
        below = last
    remarks = _remarks_below(below)
    blanks = [number for number, item in enumerate(remarks) if isinstance(item, Whitespace)]
    first = blanks[-1] + 1 if blanks else len(remarks)
    _add(below, remarks[:first])
    return remarks[first:]


def _add(table: Table, remarks: Sequence[Item]) -> None:
    """Put them at the end of the table, below its own tables where it has some."""
    below = table
    while below.value.body and isinstance(last := below.value.body[-1][1], Table):
        below = last
    for item in remarks:
        below.value.body.append((None, item))


def _same(item: Item, value: object) -> bool:
    """Tell whether the file says this value already: 30 is 30.0 to a timeout, but true is not 1 to a server."""
    there = item.unwrap()
    return json.dumps(there) == json.dumps(value) if isinstance(value, Mapping) else bool(there == value)


def _item(value: object) -> Item:
    """Return the value as one line of TOML."""
    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        for key, each in value.items():
            inline.append(str(key), _item(each))
        return inline
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        for each in value:
            array.append(_item(each))
        return array
    if value is None:
        raise UsageError("extra_body holds a null, which TOML cannot write; leave the field out")
    return tomlkit.item(value)


def _write_roles(document: tomlkit.TOMLDocument, roles: Mapping[str, str]) -> None:
    table = document.get("roles", tomlkit.table())
    if "roles" in document and not (roles and isinstance(table, Table | InlineTable)):
        document.remove("roles")
        table = tomlkit.table()
    for role in [key for key in table if key not in roles]:
        table.remove(role)
    for role, name in roles.items():
        if table.get(role) != name:
            table[role] = name
    if roles and "roles" not in document:
        document.append("roles", table)
