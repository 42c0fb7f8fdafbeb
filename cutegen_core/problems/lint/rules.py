"""Rules of the lint: what is at stake in each, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from cutegen_core.records.problem import Workload


class Severity(StrEnum):
    """ERROR: a verdict on the problem is meaningless. WARNING: wrong or slow kernels may pass. NOTE: good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


CHEATS = frozenset(
    ("zeros-pass", "mean-passes", "copy-passes", "constant-output", "ignores-inputs", "untested-input", "half-passes")
)
"""Wrong answers that at least one test must reject."""


class LintRule(NamedTuple):
    """One rule of the lint."""

    severity: Severity
    why: str
    do: str


@dataclass(frozen=True)
class LintFinding:
    """One weakness of one problem.

    Attributes:
        rule: key of `RULES`.
        what: the weakness, and where it is.
        workloads: all workloads of the problem with the weakness fixed; empty if workloads cannot fix it.
    """

    rule: str
    what: str
    workloads: tuple[Workload, ...] = ()

    @property
    def severity(self) -> Severity:
        return RULES[self.rule].severity

    @property
    def why(self) -> str:
        return RULES[self.rule].why

    @property
    def do(self) -> str:
        return RULES[self.rule].do

    def to_plain(self) -> Mapping[str, object]:
        """Return the finding for JSON, with the rule's texts."""
        words = {"severity": self.severity.value, "what": self.what, "why": self.why, "do": self.do}
        mended = [asdict(workload) for workload in self.workloads]
        return {"rule": self.rule, **words, **({"workloads": mended} if mended else {})}


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES: Mapping[str, LintRule] = {
    "random-output": LintRule(
        _ERROR,
        "No kernel can draw the same random numbers, so none can be right.",
        "Draw the numbers in get_inputs and pass them to forward.",
    ),
    "nondeterministic": LintRule(
        _ERROR,
        "There is no expected answer to compare a kernel with.",
        "Take out what depends on time, addresses, hashes or the system's random source.",
    ),
    "stateful": LintRule(
        _ERROR,
        "Kernels are called many times and must give the same answer each time; which call would be the right one?",
        "Keep nothing in the module between calls: pass it to forward and return it.",
    ),
    "unseeded-inputs": LintRule(
        _ERROR,
        "A result cannot be judged against inputs that cannot be made again.",
        "Draw values with torch's or numpy's global generator.",
    ),
    "nonfinite-output": LintRule(
        _ERROR,
        "NaN and Inf match whatever makes them; the arithmetic behind them is not tested.",
        "Change get_inputs so that the reference is defined on its own inputs.",
    ),
    "empty-output": LintRule(_ERROR, "Nothing is compared.", "Give the workload sizes of at least 1."),
    "constant-output": LintRule(
        _ERROR, "A kernel that writes this one number passes and computes nothing.", "Return what depends on the input."
    ),
    "ignores-inputs": LintRule(
        _ERROR,
        "A kernel can keep the answer and never read its inputs.",
        "Make the output depend on the inputs by more than the tolerance.",
    ),
    "zeros-pass": LintRule(
        _ERROR,
        "A kernel that is never launched on cleared memory passes.",
        "Scale the inputs up, or make atol smaller than the outputs.",
    ),
    "mean-passes": LintRule(
        _ERROR, "A kernel that computes one number for all passes.", "Make the tolerance smaller than the spread."
    ),
    "copy-passes": LintRule(
        _ERROR,
        "A kernel that copies its input passes.",
        "Draw inputs on which the reference does something (both signs, larger values).",
    ),
    "untested-input": LintRule(
        _WARNING,
        "A kernel that never reads it passes; a reference that multiplies by something tiny, or drops it, hides that.",
        "Use it visibly, or take it out of forward.",
    ),
    "fixed-input": LintRule(
        _NOTE,
        "A kernel may have its values built in, and passes.",
        "Fine for a mask or positions that are part of the task; otherwise draw it at random.",
    ),
    "mostly-one-value": LintRule(
        _WARNING,
        "Errors in the few other elements are all that tests can find.",
        "Draw inputs on which the output varies.",
    ),
    "half-passes": LintRule(
        _WARNING,
        "A kernel that computes at half the precision passes as one of full precision, and is twice as fast.",
        "Make atol, rtol or the multiple of the reference's own error smaller; or name what is allowed in ALLOW.",
    ),
    "loose-tolerance": LintRule(
        _WARNING,
        "Beyond ten times the default, kernels pass that have lost digits to a wrong order of sums or a wrong formula.",
        "Leave the dtype out for the default; loosen only what an honest kernel was seen to need.",
    ),
    "one-sign": LintRule(
        _WARNING,
        "Lost signs, missing absolute values and wrong start values of a maximum are not seen.",
        "Use torch.randn, or add a workload with large_scale values, which have both signs.",
    ),
    "narrow-inputs": LintRule(
        _WARNING,
        "Elements that are nearly equal can be swapped, or read from the wrong place, without being noticed.",
        "Draw values that differ, such as torch.randn.",
    ),
    "no-hard-values": LintRule(
        _WARNING,
        "Sums and exponentials that overflow or cancel only show on values of a large mean or scale.",
        "Add a test workload with such values.",
    ),
    "writes-inputs": LintRule(
        _WARNING,
        "Kernels get their inputs read-only; what the reference changes in place is not part of the comparison.",
        "Work on a copy, and return what is changed.",
    ),
    "one-shape": LintRule(
        _WARNING,
        "A kernel that works for this one shape only passes.",
        "Add test workloads of other sizes: one element, a prime, a multiple of the tile and one more.",
    ),
    "only-tiles": LintRule(
        _WARNING,
        "Kernels that never handle the rest of a tile pass, and write out of bounds elsewhere.",
        "Add a test workload with sizes that are no multiples of 8.",
    ),
    "small-benchmark": LintRule(
        _WARNING,
        "A launch alone takes some microseconds: what is timed is the launch and not the kernel.",
        "Enlarge the benchmark's sizes.",
    ),
    "too-large": LintRule(
        _ERROR,
        "It cannot be timed here: one set of buffers must fit into half of the device's memory, beside the judge's.",
        "Make the benchmark's sizes smaller.",
    ),
    "no-benchmark": LintRule(
        _WARNING, "Nothing is timed, so no kernel is ever faster than another.", "Add a workload with role benchmark."
    ),
    "weak-baseline": LintRule(
        _NOTE,
        "Eager's time is mostly memory traffic between its kernels. Being that much faster is what any fused kernel "
        "does, not what a good one does.",
        "Judge by torch.compile's time (taken beside eager on a GPU with a CUDA build of torch) and by the roofline. "
        "Whether torch.compile fuses all of it, and how fast a library's call is, cannot be known from the graph.",
    ),
    "untraced": LintRule(
        _NOTE,
        "Without a graph there is no roofline, no suspicion of too fast kernels and no kernel from the playbook.",
        "Avoid branches on values in forward; or state COMPULSORY bytes and FLOPs.",
    ),
    "no-float64": LintRule(
        _NOTE,
        "Expected values carry the reference's own rounding, so TF32 and half precision may pass for float32.",
        "Let forward follow its inputs' dtype instead of naming one.",
    ),
    "dropout-off": LintRule(
        _NOTE, "No kernel can reproduce its mask.", "Nothing, unless dropout is what you are after."
    ),
    "batch-norm-training": LintRule(
        _NOTE,
        "KernelBench runs it so: the batch's statistics are used, not the running ones.",
        "Call eval() in __init__ for the running ones.",
    ),
}
