"""Run a problem file in a process of its own, which holds no answer channel but to its supervisor.

1. The supervisor starts a zygote: a fork of itself after torch was imported and before it saw a file or an output. The
   zygote runs no file's code and forks a process for each file, so that none finds anything of another in its memory.
2. `FileProcess` sends requests and receives answers as bytes that prove nothing: each must repeat the request's nonce,
   and their size is limited. One file has a process at a time; it is killed when another file is loaded.
3. If the supervisor ends, as it does with the engine, the zygote kills the file's process and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import ProblemError

_HEADER = struct.Struct(">Q")
_STATUS = struct.Struct(">i")
_LONGEST_HEADER = 64 << 20
_START, _STOP = b"f", b"k"
_KEPT_FDS = 3


class FileReply(NamedTuple):
    """An answer of a file's process: JSON, and raw tensors."""

    message: Message
    frames: Sequence[np.ndarray[Any, np.dtype[np.uint8]]] = ()


class _ReceivedReply(NamedTuple):
    message: Message
    frames: Sequence[bytearray]


class _ProcessEndedError(Exception):
    """The file's process closed its channel."""


class FileProcess:
    """The process of the file that was asked for last.

    Args:
        serve_file: runs in that process with its end of the channel, and never returns.
    """

    def __init__(self, serve_file: Callable[[socket.socket], None]) -> None:
        self._control, theirs = socket.socketpair()
        if os.fork() == 0:
            _run_zygote(theirs, serve_file)
        theirs.close()
        self._channel: socket.socket | None = None
        self._file = ""

    def ask(self, file: str, request: Message, seconds: float, most_bytes: int = 0) -> _ReceivedReply:
        """Return the answer of this file's process; start it if another file's runs, or none.

        Args:
            file: key of the file; different files never share a process.
            most_bytes: limit of the raw tensors in the answer.

        Raises:
            ProblemError: the process ended, took too long, or sent something else than an answer to this request.
        """
        channel, deadline = self._channel_of(file), time.monotonic() + seconds
        nonce, origin = secrets.token_hex(16), request["origin"]
        try:
            self._send(channel, json.dumps(request | {"nonce": nonce}).encode(), deadline)
            return self._receive(channel, nonce, most_bytes, deadline)
        except TimeoutError:
            self.stop()
            raise ProblemError(f"{origin}: stopped: it ran past {seconds:g} s (an endless loop?).") from None
        except (_ProcessEndedError, ConnectionError):
            status = os.waitstatus_to_exitcode(self.stop())
            how = "its process was killed, or closed its channel" if status == -signal.SIGKILL else (
                f"it ended its process (status {status})"
            )  # fmt: skip
            raise ProblemError(f"{origin}: stopped: {how}.") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self.stop()
            raise ProblemError(f"{origin}: stopped: its process sent no answer to the request ({error}).") from None
        except MemoryError:
            self.stop()
            raise

    def stop(self) -> int:
        """Kill the process and return its wait status; 0 if none runs."""
        if self._channel is None:
            return 0
        self._channel.close()
        self._channel, self._file = None, ""
        self._control.sendall(_STOP)
        status: int = _STATUS.unpack(_read_exactly(self._control, _STATUS.size))[0]
        return status

    def _channel_of(self, file: str) -> socket.socket:
        if self._channel is None or self._file != file:
            self.stop()
            ours, theirs = socket.socketpair()
            socket.send_fds(self._control, [_START], [theirs.fileno()])
            theirs.close()
            _read_exactly(self._control, 1)
            ours.setblocking(False)
            self._channel, self._file = ours, file
        return self._channel

    def _send(self, channel: socket.socket, data: bytes, deadline: float) -> None:
        rest = memoryview(_HEADER.pack(len(data)) + data)
        while rest:
            self._await(channel, select.POLLOUT, deadline)
            rest = rest[channel.send(rest) :]

    def _receive(self, channel: socket.socket, nonce: str, most_bytes: int, deadline: float) -> _ReceivedReply:
        (length,) = _HEADER.unpack(self._take(channel, _HEADER.size, deadline))
        if length > _LONGEST_HEADER:
            raise ValueError(f"{length} bytes of JSON")
        answer = json.loads(self._take(channel, length, deadline))
        if answer["nonce"] != nonce:
            raise ValueError("it is not the answer to this request")
        message, sizes = answer["message"], answer["sizes"]
        if not isinstance(message, dict) or not all(type(size) is int and size >= 0 for size in sizes):
            raise ValueError("malformed")
        if sum(sizes) > most_bytes:
            raise ValueError(f"{sum(sizes)} bytes of tensors, where at most {most_bytes} fit")
        return _ReceivedReply(message, [self._take(channel, size, deadline) for size in sizes])

    def _take(self, channel: socket.socket, count: int, deadline: float) -> bytearray:
        data = bytearray(count)
        rest = memoryview(data)
        while rest:
            self._await(channel, select.POLLIN, deadline)
            got = channel.recv_into(rest)
            if not got:
                raise _ProcessEndedError
            rest = rest[got:]
        return data

    def _await(self, channel: socket.socket, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(channel, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError


def send_reply(channel: socket.socket, nonce: str, reply: FileReply) -> None:
    """Send an answer (in the file's process)."""
    sizes = [len(frame) for frame in reply.frames]
    header = json.dumps({"nonce": nonce, "message": reply.message, "sizes": sizes}).encode()
    channel.sendall(_HEADER.pack(len(header)) + header)
    for frame in reply.frames:
        channel.sendall(frame.data)


def receive_request(channel: socket.socket) -> Message:
    """Return the next request; EOFError after the last one (in the file's process)."""
    (length,) = _HEADER.unpack(_read_exactly(channel, _HEADER.size))
    request: Message = json.loads(_read_exactly(channel, length))
    return request


def _read_exactly(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = channel.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def _run_zygote(control: socket.socket, serve_file: Callable[[socket.socket], None]) -> NoReturn:
    """Fork and kill files' processes until the supervisor closes its end."""
    try:
        _keep_only(control.fileno())
        _fork_on_request(control, serve_file)
    finally:
        os._exit(0)


def _fork_on_request(control: socket.socket, serve_file: Callable[[socket.socket], None]) -> None:
    child = 0
    while True:
        word, fds, _, _ = socket.recv_fds(control, 1, 1)
        status = _kill(child) if child else 0
        child = 0
        if not word:
            return
        if word == _STOP:
            control.sendall(_STATUS.pack(status))
            continue
        child = os.fork()
        if child == 0:
            _keep_only(fds[0])
            serve_file(socket.socket(fileno=fds[0]))
            os._exit(0)
        os.close(fds[0])
        control.sendall(_START)


def _kill(child: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _keep_only(fd: int) -> None:
    """Close every descriptor but this one and the standard ones."""
    os.closerange(_KEPT_FDS, fd)
    os.closerange(fd + 1, 1 << 20)
