"""Taking a session elsewhere: its best kernel in the forms others expect, or its whole trajectory.

1. `modelnew`, `cu`, `extension`, `flashinfer`: the kernel (`bundle`), written by one module each.
2. Device code is compiled with nvcc before it is offered; without nvcc the export says "not compiled here".
3. `jsonl` (a recording, `imports` reads it back) and `html` (a presentation) take the session as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from cutegen_core.records.errors import UsageError
from cutegen_core.share.exports import bundle as bundles
from cutegen_core.share.exports import nvcc
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.cu import cu_file
from cutegen_core.share.exports.extension import project, write
from cutegen_core.share.exports.flashinfer import solution
from cutegen_core.share.exports.html import document
from cutegen_core.share.exports.modelnew import cuda_source, modelnew_file
from cutegen_core.share.exports.recording import recording, write_lines
from cutegen_core.share.exports.torch_binding import self_contained
from cutegen_core.trajectory.store import Store

Checked = Literal["compiled", "not compiled here", "n/a"]

FORMATS: Mapping[str, str] = {
    "modelnew": "a KernelBench ModelNew file",
    "cu": "a standalone .cu with a host launcher and a main",
    "extension": "a torch extension project, as a folder or a .zip",
    "flashinfer": "a flashinfer-bench Solution",
    "jsonl": "the trajectory with everything it names; .gz compresses it",
    "html": "a presentation that opens anywhere",
}
"""Format -> what it is, for people."""


class Exported(NamedTuple):
    """What was written.

    Attributes:
        checked: whether the device code was compiled before it was written.
        note: what was compiled, or why not.
    """

    path: Path
    checked: Checked
    note: str


class _Kernel(NamedTuple):
    """One way to write a kernel: the files, and the device code among them that nvcc compiles alone."""

    write: Callable[[Bundle, Path], object]
    device_code: Callable[[Bundle], str]


_KERNELS: Mapping[str, _Kernel] = {
    "modelnew": _Kernel(lambda b, path: path.write_text(modelnew_file(b), encoding="utf-8"), cuda_source),
    "cu": _Kernel(lambda b, path: path.write_text(cu_file(b), encoding="utf-8"), cu_file),
    "extension": _Kernel(lambda b, path: write(project(b), path), self_contained),
    "flashinfer": _Kernel(lambda b, path: path.write_text(solution(b), encoding="utf-8"), self_contained),
}


def export(
    store: Store, session: str, format: str, output: Path, *, candidate: str | None = None, check: bool = True
) -> Exported:
    """Writes a session's best kernel, or the session itself, to `output`.

    Args:
        format: one of FORMATS.
        candidate: key of another kernel than the best.
        check: False skips the compiler.

    Raises:
        UsageError: unknown format, nothing passed yet, nvcc refuses the code, or `output` cannot be written.
    """
    if format not in FORMATS:
        raise UsageError(f"there is no export format {format!r}; there are {', '.join(FORMATS)}")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: the folder {output.absolute().parent} does not exist")
    try:
        if format == "jsonl":
            write_lines(recording(store, session), output)
            return Exported(output, "n/a", "events and every text they name")
        if format == "html":
            output.write_text(document(store, session), encoding="utf-8")
            return Exported(output, "n/a", "no network, no other files")
        return _kernel(bundles.load(store, session, candidate), _KERNELS[format], output, check)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error


def _kernel(bundle: Bundle, kind: _Kernel, output: Path, check: bool) -> Exported:
    verdict = nvcc.check(kind.device_code(bundle), bundle.arch) if check else nvcc.Check(None, "not asked for")
    kind.write(bundle, output)
    return Exported(output, "compiled" if verdict.compiled else "not compiled here", verdict.note)
