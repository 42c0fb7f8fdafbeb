"""Judge the runs of TEST, and keep a verdict of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cutegen_core.evaluate.stages.runs import PreparedWorkload, Ran, RunKind
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.execute.port import Executed
from cutegen_core.judge.reference import Reference
from cutegen_core.records.trial import Comparison, SharedAccess, Status, WorkloadVerdict

PARTED = (
    ". In this run the active mask (__activemask, coalesced_threads) named every second of the lanes that came "
    "together, as a device may: name the lanes that must be there"
)


@dataclass(frozen=True)
class RunVerdicts:
    """The verdicts of a trial's runs.

    Attributes:
        has_orders: whether the executor has thread orders, which a verdict then names.
        kept: one per run, in order; the last one failed if the trial did.
        switches: workload -> the most thread switches of its runs.
        shared: kernel -> how its warps access shared memory, in the run that did so most.
    """

    reference: Reference
    seed: int
    has_orders: bool
    kept: list[WorkloadVerdict]
    switches: dict[str, int] = field(default_factory=dict)
    shared: dict[str, SharedAccess] = field(default_factory=dict)

    def judge(self, made: PreparedWorkload, kind: RunKind, ran: Ran) -> StageFailure | None:
        """Compare the outputs with the reference's, if the run ended well."""
        if ran.executed.status is not Status.PASSED:
            return self.fail(made, kind, ran.executed)
        poison = kind.poison(self.seed)
        found = self.reference.compare(made.workload, self.seed, ran.outputs, poison=poison, derived=made.derived)
        wrong = next((one for one in found if one.wrong), None)
        if wrong is None:
            self.record(made, kind, replace(ran.executed, message=""), found)
            return None
        message = f"workload {made.workload.name}: {wrong.sentence}{PARTED if ran.executed.parted else ''}"
        return self.fail(made, kind, replace(ran.executed, status=Status.INCORRECT_NUMERICAL, message=message), found)

    def fail(
        self, made: PreparedWorkload, kind: RunKind, ran: Executed, comparisons: tuple[Comparison, ...] = ()
    ) -> StageFailure:
        """Keep the verdict of a run that failed, and return it as the trial's."""
        self.record(made, kind, ran, comparisons)
        return StageFailure(ran.status, ran.message)

    def record(
        self, made: PreparedWorkload, kind: RunKind, ran: Executed, comparisons: tuple[Comparison, ...] = ()
    ) -> None:
        """Keep the verdict of a run."""
        name, order = made.workload.name, kind.order if self.has_orders else ""
        self.switches[name] = max(ran.switches, self.switches.get(name, 0))
        for each in ran.shared:
            known = self.shared.get(each.kernel, each)
            self.shared[each.kernel] = max(known, each, key=lambda access: access.least)
        self.kept.append(
            WorkloadVerdict(
                name, kind.mode, self.seed, ran.status, ran.seconds, order, ran.message, comparisons, ran.findings
            )
        )
