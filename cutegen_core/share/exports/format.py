"""What an export format is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.trajectory.store import Store


class OfKernel(NamedTuple):
    """A format that holds one kernel.

    Attributes:
        write: writes the kernel to a path.
        device_code: returns the text that nvcc compiles alone before the file is offered; None compiles nothing.
    """

    write: Callable[[Bundle, Path], object]
    device_code: Callable[[Bundle], str] | None = None


class OfSession(NamedTuple):
    """A format that holds a whole session.

    Attributes:
        write: writes the session with this id to a path.
        note: what the file holds or needs, in a few words.
    """

    write: Callable[[Store, str, Path], object]
    note: str


@dataclass(frozen=True)
class Format:
    """One way to take a session elsewhere.

    Attributes:
        key: its name on the command line and in the menu.
        title: what it is, in a few words.
        ending: of the file's name, where the page chooses the name.
    """

    key: str
    title: str
    ending: str
    writer: OfKernel | OfSession

    @property
    def of_session(self) -> bool:
        return isinstance(self.writer, OfSession)

    @property
    def is_archive(self) -> bool:
        """Say whether it has several files, in a folder or an archive of it."""
        return self.ending == ".zip"

    @property
    def compiles(self) -> bool:
        """Say whether nvcc compiles something first, which takes a minute or two."""
        return isinstance(self.writer, OfKernel) and self.writer.device_code is not None


def text_file(make: Callable[[Bundle], str]) -> Callable[[Bundle, Path], object]:
    """Return a writer of a kernel as one text file."""
    return lambda bundle, path: path.write_text(make(bundle), encoding="utf-8")
