"""End a child process with the process that started it, however that ended."""

from __future__ import annotations

import os
import select
import threading


def exit_when_closed(fd: int) -> None:
    """Start a thread that ends this process as soon as the other end of a pipe or socket is closed."""
    watch = select.poll()
    watch.register(fd, select.POLLRDHUP)  # poll always reports POLLHUP and POLLERR

    def wait() -> None:
        watch.poll()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
