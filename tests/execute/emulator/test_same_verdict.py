"""A kernel gets the same verdict whatever the number of processors, and however often it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cutegen_core.records.trial import Trial
from tests.adversarial.bench import Bench
from tests.adversarial.case import evidence
from tests.adversarial.corpus import named
from tests.shared_tools import SharedTools

KERNELS = (
    "naive", "persistent", "split-K with atomics, declared", "last block, volatile reads", "a lock between blocks",
    "histogram with atomics", "the last block without a fence", "a __device__ variable every thread writes",
    "a fence alone", "missing barrier", "reads past the end at larger sizes only",
    "splitk_scratch: scratch for one piece", "atomics in any order, undeclared",
)  # fmt: skip
DEFAULT = ("histogram with atomics", "the last block without a fence", "splitk_scratch: scratch for one piece")
SEED = 12345


@pytest.fixture(scope="module")
def bench(shared: SharedTools) -> Iterator[Bench]:
    with Bench("cpu", shared=shared) as made:
        yield made


@contextmanager
def _processors(count: int) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _said(trial: Trial) -> str:
    return f"{trial.status}\n{evidence(trial)}"


@pytest.mark.by_default(1)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("name", [n if n in DEFAULT else pytest.param(n, marks=pytest.mark.thorough) for n in KERNELS])
def test_one_processor_and_two_say_the_same(bench: Bench, name: str, request: pytest.FixtureRequest) -> None:
    repeats = 10 if request.config.getoption("--thorough") else 2
    said = set()
    for processors in (1, 2):
        with _processors(processors):
            said |= {_said(bench.evaluate(named(name), seed=SEED)) for _ in range(repeats)}
    assert len(said) == 1, said
