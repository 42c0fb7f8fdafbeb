"""Capture work on a GPU as a CUDA graph, which the host starts with one call.

What is captured may not wait for the device. torch says where its own operations do, without harm; a capture that
fails all the same leaves torch's generator and current stream as they were in it, so both are put back.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch

warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")

_REASON = 300
"""Characters of an error that a note quotes."""


class CaptureError(Exception):
    """Say why work cannot be captured."""


class Capturer:
    """Captures on one GPU; the graphs share memory, so they are replayed one after another.

    Attributes:
        failures: captures that failed so far; each makes those before it useless, since they draw from a generator
            that is no longer torch's.
    """

    def __init__(self, where: torch.device) -> None:
        self._where = where
        self._pool = torch.cuda.graph_pool_handle()
        self.failures = 0

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what replays the work, which ran before and does not run now.

        Raises:
            CaptureError: it cannot be captured.
        """
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._where)
        try:
            # Threads of the loader allocate page-locked memory meanwhile, which concerns no capture.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                work()
        except RuntimeError as error:
            torch.cuda.set_stream(before)
            self._recover()
            raise CaptureError(_reason(error)) from error
        return graph.replay

    def _recover(self) -> None:
        """Put back what a failed capture leaves behind in torch."""
        self.failures += 1
        generator = torch.cuda.default_generators[self._where.index]
        generator.graphsafe_set_state(generator.clone_state())
        with contextlib.suppress(RuntimeError):  # it says that nothing was left behind
            torch._C._cuda_endAllocateToPool(self._where.index, self._pool)

    @contextlib.contextmanager
    def refuse_waits(self) -> Iterator[None]:
        """Let torch refuse what waits for the device while the block runs.

        Raises:
            CaptureError: something did.
        """
        mode = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            raise CaptureError("an operation in it waits for the device") from error
        finally:
            torch.cuda.set_sync_debug_mode(mode)


def _reason(error: RuntimeError) -> str:
    """Quote the error of the work; the end of a capture that failed before only says that it did."""
    first = error.__context__ or error
    return str(first).strip().partition("\n")[0][:_REASON]
