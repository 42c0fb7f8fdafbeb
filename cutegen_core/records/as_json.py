"""Convert frozen records to JSON and back. Records stay plain dataclasses; pydantic reads their type annotations."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from cutegen_core.records.errors import StoreError

R = TypeVar("R")


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def dump(record: object) -> str:
    """Return the record as one line of JSON; NaN and infinities, which wrong kernels produce, are written as bare
    words."""
    return json.dumps(to_plain(record), separators=(",", ":"))


def to_plain(record: object) -> Any:  # noqa: ANN401 - JSON values
    """Return the record as dicts, lists, strings and numbers."""
    return _adapter(cast(Hashable, type(record))).dump_python(record, mode="json")


def load(kind: type[R], text: str | bytes) -> R:
    """Return the record of type `kind` that the JSON describes.

    Raises:
        StoreError: the JSON does not fit the type; the text names the field.
    """
    try:
        return cast(R, _adapter(cast(Hashable, kind)).validate_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        name = getattr(kind, "__name__", str(kind))
        raise StoreError(f"stored {name} cannot be read: {where or 'record'}: {first['msg']}") from error
