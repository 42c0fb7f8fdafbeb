"""The folder that travels: one record a candidate, and compressed blobs named by their content."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cutegen_core.execute.port import Executed
from cutegen_core.machine.device import DEFAULT_ARCH, KNOWN
from cutegen_core.records import as_json
from cutegen_core.records.candidate import content_key
from cutegen_core.records.problem import Signature
from cutegen_core.records.trial import Status

DEVICE = KNOWN[DEFAULT_ARCH]
"""Plans are resolved for it on both sides."""
SEED = 20_26
NAN_POISON, OTHER_POISON = 0xFF, 0x5A


@dataclass(frozen=True)
class Ran:
    """How one execution ended.

    Attributes:
        kind: of the finding, such as "race"; "" when there is none.
        outputs: blob keys by name; empty when it did not run to its end.
    """

    status: Status
    message: str = ""
    kind: str = ""
    line: int = 0
    outputs: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """A candidate on one workload.

    Attributes:
        inputs: blob keys by name.
        checked: with what finds memory errors and races, where that was done.
        plain, again: two executions that find other bytes in their outputs (and, on the emulator, take the threads in
            another order).
    """

    workload: str
    seed: int
    signature: Signature
    inputs: Mapping[str, str]
    checked: Ran | None = None
    plain: Ran | None = None
    again: Ran | None = None


@dataclass(frozen=True)
class Record:
    """A candidate on the emulator or on the GPU.

    Attributes:
        name: unique, such as "softmax/registers".
        cubin: blob key, "" when it did not compile.
        lowered: the plan's kernel names -> the cubin's.
        refused: why it never ran: the compiler's or the emulator's word, with its status.
        of: key of what it was made from; another key means that it must be made again.
    """

    name: str
    source: str
    cubin: str
    lowered: Mapping[str, str]
    runs: tuple[Run, ...]
    of: str
    refused: Ran | None = None


def verdict(record: Record) -> Ran:
    """Return the first thing that went wrong, or the last run."""
    if record.refused:
        return record.refused
    ends = [ran for run in record.runs for ran in (run.checked, run.plain, run.again) if ran]
    return next((ran for ran in ends if ran.status is not Status.PASSED), ends[-1])


def ended(executed: Executed) -> Ran:
    """Return what an execution says, without its outputs."""
    found = executed.findings[0] if executed.findings and executed.status is not Status.PASSED else None
    kind, line = (found.kind, found.line) if found else ("", 0)
    return Ran(executed.status, executed.message, kind, line, seconds=round(executed.seconds, 3))


class Folder:
    """Records under NAME.json and blobs under blobs/."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "blobs").mkdir(parents=True, exist_ok=True)

    @staticmethod
    def key(data: bytes) -> str:
        """Return the content key of a blob."""
        return content_key(data)

    def put(self, data: bytes) -> str:
        """Keep a blob and return its key."""
        key = content_key(data)
        path = self._blob(key)
        if not path.exists():
            path.write_bytes(lzma.compress(data, preset=6))
        return key

    def get(self, key: str) -> bytes:
        return lzma.decompress(self._blob(key).read_bytes())

    def save(self, record: Record) -> None:
        self._record(record.name).write_text(as_json.dump(record))

    def load(self, name: str) -> Record | None:
        path = self._record(name)
        return as_json.load(Record, path.read_text()) if path.exists() else None

    def all(self) -> Iterator[Record]:
        for path in sorted(self.path.glob("*.json")):
            yield as_json.load(Record, path.read_text())

    def prune(self) -> None:
        """Remove blobs no record names."""
        text = "".join(path.read_text() for path in self.path.glob("*.json"))
        for blob in (self.path / "blobs").iterdir():
            if blob.stem not in text:
                blob.unlink()

    def _record(self, name: str) -> Path:
        return self.path / f"{name.replace('/', '--')}.json"

    def _blob(self, key: str) -> Path:
        return self.path / "blobs" / f"{key}.xz"
