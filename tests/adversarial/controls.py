"""The right kernels of files as honest controls."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.right_kernels import RIGHT_KERNELS, RightKernel

_RIGHT = status(Status.PASSED)


def _control(kernel: RightKernel) -> Case:
    return Case(f"{kernel.name}: right", "the kernel that mistakes are made in", kernel.problem, kernel.source,
                _RIGHT, _RIGHT)  # fmt: skip


CONTROLS: tuple[Case, ...] = tuple(_control(kernel) for kernel in RIGHT_KERNELS.values())
