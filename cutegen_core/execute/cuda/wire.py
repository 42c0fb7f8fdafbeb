"""Send JSON messages and file descriptors over a Unix socket between a memory owner and its runner.

A message is one line of JSON. Its descriptors precede it as ancillary data of single spaces, because the kernel limits
the number of descriptors per byte; JSON allows leading spaces.
https://man7.org/linux/man-pages/man7/unix.7.html, SCM_RIGHTS.
"""

from __future__ import annotations

import array
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Message = dict[str, Any]

_FDS_A_BYTE = 200
_CHUNK = 1 << 16
_LARGEST_BYTES = 64 << 20


class Received(NamedTuple):
    """A message and its descriptors, which the receiver closes."""

    message: Message
    fds: list[int]


class Channel:
    """One end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._bytes = bytearray()
        self._fds: list[int] = []

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = (), timeout_s: float = 30.0) -> None:
        """Send one message with its descriptors, which stay open in this process.

        Raises:
            EOFError: the other side has closed the socket.
            TimeoutError: the other side does not read.
        """
        self.socket.settimeout(timeout_s)
        try:
            for start in range(0, len(fds), _FDS_A_BYTE):
                rights = array.array("i", fds[start : start + _FDS_A_BYTE])
                self.socket.sendmsg([b" "], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            self.socket.sendall(json.dumps({**message, "fds": len(fds)}).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError("the other side has closed the channel") from error

    def receive(self, timeout_s: float | None = None) -> Received:
        """Wait for the next message; without limit if `timeout_s` is None.

        Raises:
            EOFError: the other side has closed the socket, or sent too much without a line end.
            TimeoutError: no complete message arrived in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._bytes:
            self.socket.settimeout(None if deadline is None else max(1e-3, deadline - time.monotonic()))
            self._read()
            if deadline is not None and time.monotonic() > deadline and b"\n" not in self._bytes:
                raise TimeoutError
        line, _, self._bytes = self._bytes.partition(b"\n")
        message: Message = json.loads(line)
        count = message.pop("fds")
        fds, self._fds = self._fds[:count], self._fds[count:]
        return Received(message, fds)

    def close(self) -> None:
        """Close the socket and the descriptors that were never received."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        self.socket.close()

    def _read(self) -> None:
        try:
            room = socket.CMSG_SPACE(_FDS_A_BYTE * array.array("i").itemsize)
            data, ancillary, _, _ = self.socket.recvmsg(_CHUNK, room, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            data, ancillary = b"", []
        for _, _, rights in ancillary:
            self._fds += array.array("i", rights)
        self._bytes += data
        if not data or len(self._bytes) > _LARGEST_BYTES:
            raise EOFError("the other side has closed the channel")


def make_pair() -> tuple[Channel, socket.socket]:
    """Create a socket pair: this process's channel, and the socket that a child inherits."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs
