"""Take a session elsewhere: its best kernel in the forms that others expect, or its whole trajectory.

1. `formats.FORMATS` lists the formats; each is written by a module of its own, from a kernel (`bundle`) or a session.
2. nvcc compiles device code before it is offered; without nvcc the export says "not compiled here".
3. `imports` reads a recording (`jsonl`) back.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from cutegen_core.records.errors import UsageError
from cutegen_core.share.exports import bundle as bundles
from cutegen_core.share.exports import nvcc
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.format import Format, OfKernel, OfSession
from cutegen_core.share.exports.formats import FORMATS
from cutegen_core.trajectory.store import Store

__all__ = ["FORMATS", "Checked", "Exported", "Format", "export"]

Checked = Literal["compiled", "not compiled here", "n/a"]


class Exported(NamedTuple):
    """What was written.

    Attributes:
        checked: whether the device code was compiled before it was written.
        note: what was compiled, or why not.
    """

    path: Path
    checked: Checked
    note: str


def export(
    store: Store, session: str, format: str, output: Path, *, candidate: str | None = None, check: bool = True,
    original: Path | None = None,
) -> Exported:  # fmt: skip
    """Write a session's best kernel, or the session itself, to `output`.

    Args:
        format: a key of FORMATS.
        candidate: key of another kernel than the best.
        check: False skips the compiler.
        original: the file that the existing kernel came from, for the patch of the format library.

    Raises:
        UsageError: unknown format, nothing passed yet, nvcc refuses the code, or `output` cannot be written.
    """
    if format not in FORMATS:
        raise UsageError(f"there is no export format {format!r}; there are {', '.join(FORMATS)}")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: the folder {output.absolute().parent} does not exist")
    if output.is_dir() and not FORMATS[format].is_archive:
        raise UsageError(f"cannot write {output}: it is a folder; name a file in it")
    writer = FORMATS[format].writer
    try:
        if isinstance(writer, OfSession):
            writer.write(store, session, output)
            return Exported(output, "n/a", writer.note)
        bundle = bundles.load(store, session, candidate)
        if original is not None:
            bundle = replace(bundle, original=(original.name, original.read_text(encoding="utf-8")))
        return _export_kernel(bundle, writer, output, check)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error


def _export_kernel(bundle: Bundle, writer: OfKernel, output: Path, check: bool) -> Exported:
    if writer.device_code is None:
        writer.write(bundle, output)
        return Exported(output, "n/a", "nothing in it is compiled")
    verdict = nvcc.check(writer.device_code(bundle), bundle.arch) if check else nvcc.Check(None, "not asked for")
    writer.write(bundle, output)
    return Exported(output, "compiled" if verdict.compiled else "not compiled here", verdict.note)
