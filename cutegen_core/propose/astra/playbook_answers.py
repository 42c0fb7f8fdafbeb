"""Answer for the roles that the playbook plays, in the form in which a model answers.

| role | answer |
|---|---|
| testing | the kinds of values that the reference bears, each at an awkward size; what failed before is left out |
| profiling | the measured figures in words, and what follows from them |
| planning | the next kernel of the playbook's menu but the naive one, or the one that is asked for |
| coding | that kernel's file |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.problems import edit, suite
from cutegen_core.problems.other_sizes import choose_other_sizes, count_elements
from cutegen_core.propose.astra.figures import ShapeFigure, describe, figures
from cutegen_core.propose.playbook import NotInPlaybook, Variant, not_understood, redirect, understood
from cutegen_core.propose.playbook.proposer import kernels_for
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import profile_notes
from cutegen_core.propose.replies.reading import find_idea
from cutegen_core.records.candidate import content_key
from cutegen_core.records.event import SuiteFault
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from cutegen_core.records.wording import listed

_SIZES, _KINDS = 3, 6
_PLAIN = (Values.LARGE_MEAN, Values.NEGATIVE_MEAN, Values.ONE_HOT, Values.SPARSE, Values.SIGNED_ZEROS, Values.WIDE)
"""Kinds that suit most inputs, tried first of those that the reference bears."""


def workloads(request: ProposalRequest) -> str:
    """Return a suite for the problem as a WORKLOADS literal: awkward sizes, and the values that it bears at these.

    Each suite is larger than the one before. Kinds of values at which the existing kernel failed are left out, and in
    the end all of them, since only the first failure of a suite is known.
    """
    tries = len(request.suites) + 1
    failed = " ".join(tried.message for tried in request.suites if tried.message.startswith(tuple(SuiteFault)))
    sizes = list(_awkward_sizes(request.problem, _SIZES * tries))
    made = [Workload(f"suite {n}", WorkloadRole.EMULATOR, found) for n, found in enumerate(sizes, 1)]
    kinds = () if failed and tries > 2 else _kinds(request)[: _KINDS * tries]
    made += [
        Workload(f"suite {values.value}", WorkloadRole.EMULATOR, found, values)
        for values, found in zip(kinds, cycle(sizes or [{}]))
        if f"'suite {values.value}'" not in failed
    ]
    made = made[: suite.LIMITS.workloads]
    return f"{_unheard(request)}```python\nWORKLOADS = {edit.workloads_literal(made)}\n```\n"


def profile(request: ProposalRequest) -> str:
    """Return the figures of every shape, and what bounds the kernel there as far as it is known."""
    found = figures(request)
    return _unheard(request) + "\n".join((describe(found), *_conclusions(found), *_spent(request)))


def plan(request: ProposalRequest) -> str:
    """Return the next idea of the menu, or the one that the instruction names; DONE with the reason if there is none.

    Raises:
        LookupError: the instruction, or what the person said of the last plan, names nothing that the playbook knows.
    """
    try:
        variants = kernels_for(request)
    except NotInPlaybook as reason:
        return f"DONE: not in the playbook: {reason}"
    words = request.sent_back.dropped if request.sent_back else request.instruction
    if words:
        asked = redirect(words, variants, request.base.source if request.base else "")
        if asked is None:
            raise LookupError(not_understood(words, variants))
        if request.base and asked.source == request.base.source:
            raise LookupError(f"the current kernel is '{asked.name}' already; {understood(variants)}")
        return _plan_words(asked, variants, request)
    seen = {attempt.candidate for attempt in request.attempts}
    better = [variant for variant in variants if variant.name != "naive"] or variants
    fresh = [variant for variant in better if content_key(variant.source) not in seen]
    return (
        _plan_words(fresh[0], variants, request)
        if fresh
        else f"DONE: all {len(better)} kernels of the playbook were proposed"
    )


def code(request: ProposalRequest, planned: str) -> str:
    """Return the kernel file that the plan names, or that its words describe; a line that says so if there is none.

    Raises:
        LookupError: what the person said of the last file names nothing that the playbook knows.
    """
    try:
        variants = kernels_for(request)
    except NotInPlaybook as reason:
        return f"The playbook cannot write this: {reason}"
    base = request.base.source if request.base else ""
    if request.sent_back:
        words = request.sent_back.dropped
        asked = redirect(words, variants, base)
        if asked is None:
            raise LookupError(not_understood(words, variants))
        return _fenced(asked)
    idea = find_idea(planned)
    named = next((variant for variant in variants if variant.name == idea.split(":")[0].strip()), None)
    chosen = named or redirect(idea, variants, base)
    if chosen is None:
        return f"The playbook has no kernel for the idea '{idea}'; {understood(variants)}"
    return _fenced(chosen)


def _fenced(variant: Variant) -> str:
    return f"```cpp\n{variant.source.rstrip()}\n```\n"


def _unheard(request: ProposalRequest) -> str:
    """Return a line for a person who sent back what the playbook cannot say in another way, "" where nobody did."""
    words = request.sent_back.dropped if request.sent_back else ""
    return f"The playbook cannot follow '{words}' here: approve this, or reply with your own.\n" if words else ""


def _plan_words(variant: Variant, variants: Sequence[Variant], request: ProposalRequest) -> str:
    menu = " -> ".join(known.name for known in variants)
    shapes = listed(shape.workload.name for shape in request.shapes)
    return (
        f"Idea: {variant.name}: {variant.idea}\nMenu: {menu}.\nShapes: {shapes}\n"
        "Effect: not estimated; what it brings is measured where there is a GPU\n"
        "Risk: another order of summation than the current kernel's, and other tails\n"
    )


def _kinds(request: ProposalRequest) -> Sequence[Values]:
    bears = [values for values in request.bears if values is not Values.GIVEN]
    return [v for v in _PLAIN if v in bears] + [v for v in bears if v not in _PLAIN]


def _awkward_sizes(problem: Problem, most: int) -> Iterator[dict[str, SizeValue]]:
    """Yield sizes that no test of the problem has, each larger than the one before."""
    own = suite.sizes_to_set(problem)
    used = [workload.sizes for workload in problem.workloads]
    small = [workload.sizes for workload in problem.with_role(WorkloadRole.EMULATOR)]
    start = sorted(small, key=count_elements)[len(small) // 2] if small else {}
    for _ in range(most):
        found = dict(choose_other_sizes(start, own, used))
        if found in used:
            return
        yield found
        used.append(found)
        start = found


def _spent(request: ProposalRequest) -> Iterator[str]:
    """Yield registers and spills of each kernel, and where the profiler has looked, its words."""
    trial = request.base_trial
    for kernel in trial.resources.kernels if trial and trial.resources else ():
        spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
        yield f"{kernel.kernel}: {kernel.registers} registers a thread, {spilled} B spilled"
    source = request.base.source if request.base else ""
    seen = profile_notes.text(request.profile, source) if request.profile else request.profile_note
    yield from (seen,) if seen else ()


def _conclusions(found: Sequence[ShapeFigure]) -> Iterator[str]:
    timed = [figure for figure in found if figure.share is not None]
    if not timed:
        yield "Nothing was timed here: there is no GPU, or its peaks were not measured."
        return
    far = min(timed, key=lambda figure: figure.share or 0.0)
    yield f"Farthest from its floor: {far.workload} ({far.share:.0%}), bound by {far.bound_by} there."
