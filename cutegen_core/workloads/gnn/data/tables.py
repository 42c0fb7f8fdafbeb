"""Read tables in chunks, CSV (plain or gzip) and Parquet alike; an error names the file, the column and the place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.graph import Array, Ids

ENDINGS = (".csv", ".csv.gz", ".parquet")
_PARQUET_ROWS = 1 << 16

ID, LABEL, NUMBER, TEXT = pa.int64(), pa.float64(), pa.float32(), pa.string()


def find_table(folder: Path, stem: str) -> Path | None:
    """Return the file `stem` with one of the endings of tables, None if there is none.

    Raises:
        UsageError: there are several.
    """
    found = [path for ending in ENDINGS if (path := folder / f"{stem}{ending}").is_file()]
    if len(found) > 1:
        raise UsageError(f"{folder} holds {found[0].name} and {found[1].name}: keep one of them.")
    return found[0] if found else None


def need_table(folder: Path, stem: str) -> Path:
    """Return the same, and refuse a folder without it.

    Raises:
        UsageError: there is none, or several.
    """
    if (path := find_table(folder, stem)) is None:
        raise UsageError(f"{folder} holds no {stem}.csv, {stem}.csv.gz or {stem}.parquet.")
    return path


def column_names(path: Path, *, header: bool = True) -> list[str]:
    """Return the names of a table's columns; without a header they are f0, f1, ...

    Raises:
        UsageError: a name occurs twice.
    """
    with _errors_of(path):
        if path.suffix == ".parquet":
            names = parquet.ParquetFile(path).schema_arrow.names
        else:
            with csv.open_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=not header)) as reader:
                names = reader.schema.names
    if len(set(names)) < len(names):
        raise UsageError(f"{path}: a column name occurs twice: {', '.join(names)[:200]}.")
    return list(names)


def read_table(
    path: Path, types: Mapping[str, pa.DataType], *, header: bool = True
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (number of its first row, rows) with these columns, converted to these types.

    Raises:
        UsageError: a column is missing; the text lists those there are.
    """
    names = column_names(path, header=header)
    if missing := [name for name in types if name not in names]:
        raise UsageError(f"{path} has no column {missing[0]}; its columns are {', '.join(names)[:200]}.")
    row = 0
    chunks = _read_parquet(path, types) if path.suffix == ".parquet" else _read_csv(path, types, header)
    while True:
        with _errors_of(path, row):
            batch = next(chunks, None)
        if batch is None:
            return
        yield row, batch
        row += batch.num_rows


def ids_of(path: Path, batch: pa.RecordBatch, column: str, row: int) -> Ids:
    """Return a column of ids; none may be missing."""
    values = _complete(path, batch, column, row)
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False), np.int64)


def rows_of(path: Path, batch: pa.RecordBatch, columns: Sequence[str], row: int) -> Array:
    """Return columns of numbers as the rows of a matrix; none may be missing."""
    out = np.empty((batch.num_rows, len(columns)), np.float32)
    for number, column in enumerate(columns):
        out[:, number] = _complete(path, batch, column, row).to_numpy(zero_copy_only=False)
    return out


def _complete(path: Path, batch: pa.RecordBatch, column: str, row: int) -> pa.Array:
    values = batch.column(column)
    if values.null_count:
        place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise UsageError(f"{path}: column {column} has no value in row {row + place}.")
    return values


def _read_csv(path: Path, types: Mapping[str, pa.DataType], header: bool) -> Iterator[pa.RecordBatch]:
    wanted = csv.ConvertOptions(column_types=dict(types), include_columns=list(types), strings_can_be_null=True)
    with csv.open_csv(
        path, convert_options=wanted, read_options=csv.ReadOptions(autogenerate_column_names=not header)
    ) as reader:
        yield from reader


def _read_parquet(path: Path, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(list(types.items()))
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=_PARQUET_ROWS, columns=list(types)):
        columns = [_cast(batch.column(name), name, kind) for name, kind in types.items()]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(values: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if kind == values.type:
        return values
    numeric = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if (kind == ID and not pa.types.is_integer(values.type)) or (kind != TEXT and not numeric):
        raise pa.ArrowInvalid(f"column {name} is of type {values.type}; it must be {kind}")
    return values.cast(kind, safe=kind == ID)


@contextmanager
def _errors_of(path: Path, row: int = 0) -> Iterator[None]:
    """Turn errors of the reader into ours."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())[:300]
        raise UsageError(f"{path} cannot be read, from row {row} on: {said}") from error
