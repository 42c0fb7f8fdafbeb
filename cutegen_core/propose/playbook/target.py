"""What a kernel is written for: the device, as far as it is known, and the relaxations that the problem allows."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from cutegen_core.machine.device import Device

_FIRST_WITH_CLUSTERS = 90


@dataclass(frozen=True)
class Target:
    """What the menus may choose by; without a device they offer what runs from sm_80 on.

    Attributes:
        allow: words of the problem's ALLOW: "fast_math" has approximate intrinsics in the last kernel, "tf32" allows
            products of that precision, "finite_math" splits of numbers that have no infinities.
    """

    device: Device | None = None
    allow: Collection[str] = ()

    @property
    def has_wgmma(self) -> bool:
        """Return whether the device has the tensor memory accelerator and products of warp groups."""
        return self.device is not None and self.device.arch == "sm_90a"

    @property
    def cluster_smem(self) -> int:
        """Return the shared memory of a block that others of its cluster can read, in bytes; 0 without clusters."""
        if self.device is None or int(re.sub(r"\D", "", self.device.arch)) < _FIRST_WITH_CLUSTERS:
            return 0
        return self.device.smem_max

    def allows(self, *words: str) -> bool:
        """Return whether the problem allows all of these relaxations."""
        return all(word in self.allow for word in words)


ANY = Target()
