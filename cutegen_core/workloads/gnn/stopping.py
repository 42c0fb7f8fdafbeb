"""End a run when it is asked to: SIGTERM or SIGINT.

The loops look at `StopRequest.asked` after every batch, write a checkpoint and leave. A thread sees the signal even
while the main thread is inside native code: if the run has not left in time, or is asked twice, it ends at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable

from cutegen_core.records.errors import StoppedError

GRACE_S = 4.5
"""A run leaves within five seconds of the signal."""


class StopRequest:
    """Whether this process was asked to end.

    Attributes:
        signal: the signal's number; 0 while nobody asked.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Return whether the run shall end."""
        return self.signal != 0

    @property
    def exit_code(self) -> int:
        """Return the code with which the process then ends."""
        return 128 + self.signal

    def check(self) -> None:
        """End what runs, where nothing needs to be kept.

        Raises:
            StoppedError: the run was asked to end.
        """
        if self.asked:
            raise StoppedError("stopped")

    def listen(self) -> None:
        """Take SIGTERM and SIGINT from now on; main thread only."""
        receiver, sender = socket.socketpair()
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # Python writes to the socket before it runs this
        threading.Thread(target=self._watch, args=(receiver, sender), daemon=True, name="stop").start()

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call a function, from another thread, when the run is asked to end."""
        self._listeners.append(listener)

    def _watch(self, receiver: socket.socket, _sender: socket.socket) -> None:
        self.signal = receiver.recv(1)[0]
        for listener in self._listeners:
            listener()
        receiver.settimeout(GRACE_S)
        with contextlib.suppress(TimeoutError):
            receiver.recv(1)
        os._exit(self.exit_code)
