"""Begin TEST before COMPILE has ended (`preparing.compile_candidate` says when).

The emulator needs nothing of NVIDIA's compiler, and its builds are usually done first; a GPU needs no disassembled
machine code. What the tests find counts once COMPILE has accepted the kernel; if it refuses, they are given up.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

from cutegen_core.evaluate.stages.testing import CorrectnessStage
from cutegen_core.evaluate.stages.watch import SilentWatch, StageFailure, Watch


class BegunTests:
    """The tests of one trial, in a thread of their own.

    Attributes:
        watch: follows the tests; until TEST is the trial's stage, its lines say that they are of the tests.
        stage: the tests, None before they begin.
        seconds: how long they took, also while the compiler was at work.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = _LaterWatch(watch)
        self.stage: CorrectnessStage | None = None
        self.seconds = 0.0
        self._pool = ThreadPoolExecutor(1)
        self._ended: Future[StageFailure | None] | None = None

    def begin(self, stage: CorrectnessStage) -> None:
        """Begin the tests."""
        self.stage, self._ended = stage, self._pool.submit(self._run, stage)

    def _run(self, stage: CorrectnessStage) -> StageFailure | None:
        begun = time.monotonic()
        try:
            return stage.run()
        finally:
            self.seconds = time.monotonic() - begun

    def result(self) -> StageFailure | None:
        """Return how the tests ended; TEST is the trial's stage now."""
        assert self._ended
        self.watch.shows = True
        return self._ended.result()

    def close(self) -> None:
        """Give up tests that go on; return when nothing runs any more."""
        self.watch.dropped = True
        if self.stage:
            self.stage.give_up()
        if self._ended:
            wait([self._ended])
        self._pool.shutdown()


class _LaterWatch(SilentWatch):
    """Watch of tests that may be given up, and that are not the trial's stage yet."""

    def __init__(self, watch: Watch) -> None:
        self.shows = self.dropped = False
        self._watch = watch

    def say(self, text: str) -> None:
        if not self.dropped:
            self._watch.say(text if self.shows else f"testing meanwhile: {text}")

    def stopped(self) -> bool:
        return self.dropped or self._watch.stopped()
