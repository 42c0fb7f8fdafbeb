"""What a kernel is written for: the device, as far as it is known, and the relaxations that the problem allows."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from cutegen_core.kernel.plan_limits import most_cluster
from cutegen_core.machine.device import Device
from cutegen_core.records.problem import Problem, WorkloadRole

_FIRST_WITH_CLUSTERS = 90
_CLUSTERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Target:
    """What the menus may choose by; without a device they offer what runs from sm_80 on.

    Attributes:
        allow: words of the problem's ALLOW: "fast_math" has approximate intrinsics in the last kernel, "tf32" allows
            products of that precision, "finite_math" splits of numbers that have no infinities.
        one_size: only the traced workload is timed; at others kernels need not be fast.
    """

    device: Device | None = None
    allow: Collection[str] = ()
    one_size: bool = False

    @classmethod
    def of(cls, device: Device | None, problem: Problem) -> Target:
        """Return the target of a problem's kernels."""
        return cls(device, problem.allow, one_size=len(problem.with_role(WorkloadRole.BENCHMARK)) == 1)

    @property
    def has_wgmma(self) -> bool:
        """Return whether the device has the tensor memory accelerator and products of warp groups."""
        return self.device is not None and self.device.arch == "sm_90a"

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """Return of how many blocks a cluster may be; of none where the device has no clusters or is not known."""
        if self.device is None or int(re.sub(r"\D", "", self.device.arch)) < _FIRST_WITH_CLUSTERS:
            return ()
        return tuple(n for n in _CLUSTERS if n <= most_cluster(self.device.arch))

    @property
    def has_tensor_maps(self) -> bool:
        """Return whether the device has the tensor memory accelerator: what has clusters does."""
        return bool(self.cluster_sizes)

    @property
    def smem_max(self) -> int:
        """Return the most shared memory of a block, in bytes; 0 where the device is not known."""
        return self.device.smem_max if self.device else 0

    def allows(self, *words: str) -> bool:
        """Return whether the problem allows all of these relaxations."""
        return all(word in self.allow for word in words)


ANY = Target()
