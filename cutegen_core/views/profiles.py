"""Show a step's profile, alone and next to its parent's."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from cutegen_core.records.decision import StudyKind
from cutegen_core.records.performance import KernelProfile, Profile
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store
from cutegen_core.views.speed import performance_of


class ProfileDelta(NamedTuple):
    """A metric next to the parent's; `before` is None if the parent has no such number."""

    name: str
    unit: str
    before: float | None
    value: float


class ProfileView(NamedTuple):
    """A step's profile, or the reason why there is none."""

    profile: Profile | None
    message: str = ""


def profile_view(store: Store, state: State, step: Step) -> ProfileView:
    """Return the profile of a step's candidate: the one a person asked for, else the one of its trial."""
    asked = state.study(StudyKind.PROFILE, step.candidate)
    if asked and asked.result:
        return ProfileView(_profile(store, asked.result))
    performance = performance_of(store, step)
    return ProfileView(performance.profile if performance else None, asked.message if asked else "")


@lru_cache(maxsize=64)
def _profile(store: Store, key: str) -> Profile:
    return store.record(Profile, key)


def profile_deltas(before: Profile | None, profile: Profile, index: int = 0) -> tuple[ProfileDelta, ...]:
    """Return every metric of a launch, next to the parent's metric of that name and unit."""
    kernel = profile.kernels[index]
    other = _counterpart(before, profile, index) if before else None
    rows = []
    for metric in kernel.metrics:
        old = other.metric(metric.name) if other else None
        value = old.value if old and old.unit == metric.unit else None
        rows.append(ProfileDelta(metric.name, metric.unit, value, metric.value))
    return tuple(rows)


def _counterpart(before: Profile, profile: Profile, index: int) -> KernelProfile | None:
    """Return the parent's launch of the same kernel: the same number among several launches, or the only one."""
    name = profile.kernels[index].kernel
    same = [kernel for kernel in before.kernels if kernel.kernel == name]
    number = sum(kernel.kernel == name for kernel in profile.kernels[:index])
    if number < len(same):
        return same[number]
    return before.kernels[0] if len(before.kernels) == len(profile.kernels) == 1 else None
