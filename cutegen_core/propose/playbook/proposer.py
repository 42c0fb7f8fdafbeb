"""The proposer that needs no model: the playbook's kernels in menu order, or the one that an instruction names; "sweep"
tunes the current kernel's parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cutegen_core.kernel.kernel_file import is_tunable
from cutegen_core.propose.playbook import (
    NotInPlaybook,
    Target,
    Variant,
    cute_features,
    defect,
    not_understood,
    propose,
    redirect,
    understood,
)
from cutegen_core.propose.port import Answer, Declined, Finished, Proposal, ProposalRequest, WantsStudy, Width
from cutegen_core.records.candidate import Author, content_key
from cutegen_core.records.decision import StudyKind


class PlaybookProposer:
    """The playbook as a `propose.port.Proposer`; the same request gets the same answer."""

    name = "playbook"
    max_repairs = 0

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the next kernel that was not tried; Finished if there is none, Declined for words that do not map."""
        try:
            variants = kernels_for(request)
        except NotInPlaybook as reason:
            return Finished(f"not in the playbook: {reason}")
        if request.instruction:
            return _redirected(request, variants)
        seen = {attempt.candidate for attempt in request.attempts}
        fresh = [v for v in variants if content_key(v.source) not in seen]
        if not fresh:
            return Finished(f"all {len(variants)} kernels of the playbook were proposed")
        return _proposal(fresh[0], variants)

    def width(self, done: int) -> Width:
        """Return one: another kernel of the playbook's is another step."""
        return Width()


def kernels_for(request: ProposalRequest) -> tuple[Variant, ...]:
    """Return the playbook's kernels for a request's device and problem; raise NotInPlaybook."""
    target = Target.of(request.device, request.problem)
    try:
        return propose(request.graph, request.signature, request.problem.name, target, request.others)
    except NotInPlaybook:
        raise
    except Exception as error:
        raise defect(error) from error


def _redirected(request: ProposalRequest, variants: Sequence[Variant]) -> Answer:
    base = request.base.source if request.base else ""
    if re.search(r"\bsweep\b", request.instruction.lower()):
        if not base:
            return Declined("there is nothing to sweep yet: no kernel has passed")
        if not is_tunable(base):
            return Declined("there is nothing to sweep: the kernel declares no parameter with several values")
        return WantsStudy(StudyKind.SWEEP, "asked for: a sweep of the declared parameters")
    variant = redirect(request.instruction, variants, base)
    if variant is None:
        return Declined(not_understood(request.instruction, variants, "sweep"))
    if variant.source == base:
        return Declined(f"the current kernel is '{variant.name}' already; {understood(variants)}")
    return _proposal(variant, variants)


def _proposal(variant: Variant, variants: Sequence[Variant]) -> Proposal:
    used = ", ".join(f"{name} x{count}" for name, count in cute_features(variant.source).items())
    menu = " -> ".join(v.name for v in variants)
    plan = f"{variant.name}: {variant.idea}.\nMenu: {menu}.\nCuTe in it: {used}."
    return Proposal(variant.source, Author.PLAYBOOK, variant.idea, plan)
