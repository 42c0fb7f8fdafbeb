"""What the command `check` asks of the engine, or does itself."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class CheckRequest:
    """What is to be checked, and how.

    Attributes:
        kernel: the file's content.
        problem: name or path of the problem.
        folder: where a relative path begins.
        executor: "" for this machine's.
        arch: "" for this machine's.
        seed: of the inputs; None for a fresh one.
        as_json: whether the trial is wanted as JSON.
    """

    kernel: bytes
    problem: str
    folder: str
    executor: str = ""
    arch: str = ""
    seed: int | None = None
    as_json: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"kernel": base64.b64encode(self.kernel).decode()})

    @classmethod
    def from_json(cls, text: str) -> CheckRequest:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**(fields | {"kernel": base64.b64decode(fields["kernel"])}))
