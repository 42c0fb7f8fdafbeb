"""Fix the sizes of a run's training batches, where its steps are to be captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cutegen_core.records.gnn import EpochReport, RunProgress, Steps
from cutegen_core.workloads.gnn.sampling.fixed import FixedLayout, fixed_sizes
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from cutegen_core.workloads.gnn.training.run import GnnRun
from cutegen_core.workloads.gnn.training.schedule import derive_seed, share_of_rank, shuffled_batches
from cutegen_core.workloads.gnn.training.settings import threads_of

_DRAWN = 16
"""Batches from which the sizes are derived."""


def fix_sizes(run: GnnRun) -> None:
    """Let a run pad its training batches, or say why its steps are not captured."""
    if run.settings.steps is Steps.EAGER:
        run.why_eager = "the settings ask for it"
    elif not run.device.captures:
        run.why_eager = "only a GPU's steps are captured"
    else:
        run.reporter.progress(RunProgress("deriving the sizes of batches"))
        run.layout, run.why_eager = derive_layout(run), ""


def derive_layout(run: GnnRun) -> FixedLayout:
    """Return the layout for this rank's batches; the same settings give the same."""
    settings = run.settings
    whole = shuffled_batches(run.graph.splits.train, settings, 1, 1)[:_DRAWN]
    parts = share_of_rank([b for b in whole if len(b) == len(whole[0])], run.ranks.rank, run.ranks.world)
    seed = derive_seed(settings.seed, 1, 1)
    sampler = Sampler(run.graph, settings.fanouts, layered=settings.layered, seed=seed)
    with ThreadPoolExecutor(threads_of(settings)) as threads:
        samples = list(threads.map(sampler.sample, parts, range(len(parts))))
    return FixedLayout(fixed_sizes(samples), layered=settings.layered, transposed=run.aggregate.transposed)


def say_steps(reports: Sequence[EpochReport], refusals: Mapping[str, str]) -> str:
    """Say how steps ran, as a condition of the figures.

    Args:
        refusals: of each aggregate, why its steps are not captured, or "".
    """
    captured, total = sum(one.captured for one in reports), sum(one.batches for one in reports)
    reasons = {f"{name}: {reason}" if len(refusals) > 1 else reason for name, reason in refusals.items() if reason}
    if len(set(refusals.values())) == 1:
        reasons = set(refusals.values()) - {""}
    said = "; ".join([f"{captured} of {total} captured as CUDA graphs"] * bool(captured) + sorted(reasons))
    return said if captured else f"eager: {said or 'no batch came after the first ones'}"
