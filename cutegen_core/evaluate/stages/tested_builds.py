"""The executor's builds of a candidate, as the tests take them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from cutegen_core.execute.port import Built


class TestedBuilds(Protocol):
    """What runs: the executor's builds, without and with the detection of memory errors and races."""

    @property
    def plain(self) -> Built: ...

    @property
    def checked(self) -> Built: ...


@dataclass(frozen=True)
class EarlyBuilds:
    """Builds that passed while NVIDIA's compiler may still be at work on the same kernel.

    Attributes:
        made: the plain build, before it is known whether its blocks are isolated.
        isolated: what that compiler's machine code says about it.
    """

    made: Built
    checked: Built
    isolated: Future[bool]

    @property
    def plain(self) -> Built:
        """The plain build, with what is known by now."""
        known = self.isolated.done() and not self.isolated.exception()
        return replace(self.made, isolated_blocks=self.isolated.result()) if known else self.made
