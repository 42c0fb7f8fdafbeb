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


NO_FINDINGS = "no findings"
_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES: Mapping[str, LintRule] = {
    "random-output": LintRule(
        _ERROR,
        "No kernel can draw the same random numbers, so none can be right.",
        "Draw the numbers in get_inputs and pass them to forward; give F.dropout training=False.",
    ),
    "nondeterministic": LintRule(
        _ERROR,
        "There is no expected answer to compare a kernel with.",
        "Remove what depends on time, addresses, hashes or the system's random source.",
    ),
    "stateful": LintRule(
        _ERROR,
        "Kernels are called many times and must give the same answer each time, so no single call is the right one.",
        "Keep nothing in the module between calls: pass it to forward and return it.",
    ),
    "unseeded-inputs": LintRule(
        _ERROR,
        "A result cannot be judged against inputs that cannot be reproduced.",
        "Draw values with torch's or numpy's global generator.",
    ),
    "nonfinite-output": LintRule(
        _ERROR,
        "NaN and Inf match no matter how a kernel gets them, so its arithmetic is not tested.",
        "Change get_inputs so that the reference gives finite values on its own inputs.",
    ),
    "empty-output": LintRule(_ERROR, "Nothing is compared.", "Give the workload sizes of at least 1."),
    "constant-output": LintRule(
        _ERROR, "A kernel that only writes this number passes.", "Return a result that depends on the input."
    ),
    "ignores-inputs": LintRule(
        _ERROR,
        "A kernel can store the answer and never read its inputs.",
        "Make the output depend on the inputs by more than the tolerance.",
    ),
    "zeros-pass": LintRule(
        _ERROR,
        "A kernel that writes only zeros, or nothing into zeroed memory, passes.",
        "Scale the inputs up, or make atol smaller than the outputs.",
    ),
    "mean-passes": LintRule(
        _ERROR,
        "A kernel that writes the same number everywhere passes.",
        "Make the tolerance smaller than the spread of the outputs.",
    ),
    "copy-passes": LintRule(
        _ERROR,
        "A kernel that copies its input passes.",
        "Draw inputs that the reference changes (both signs, larger values).",
    ),
    "untested-input": LintRule(
        _WARNING,
        "A kernel that never reads it passes, since the reference drops it or multiplies it by a tiny number.",
        "Make its effect larger than the tolerance, or remove it from forward.",
    ),
    "fixed-input": LintRule(
        _NOTE,
        "A kernel with these values built in passes.",
        "Fine for a mask or positions that are part of the task; otherwise draw it at random.",
    ),
    "mostly-one-value": LintRule(
        _WARNING,
        "Tests can find errors only in the few other elements.",
        "Draw inputs on which the output varies.",
    ),
    "half-passes": LintRule(
        _WARNING,
        "A kernel that computes at half the precision passes as one of full precision, and is twice as fast.",
        "Make atol, rtol or error_multiple smaller, or name the allowed precision in ALLOW.",
    ),
    "loose-tolerance": LintRule(
        _WARNING,
        "Beyond ten times the default, kernels pass that lose digits by a wrong order of sums or a wrong formula.",
        "Leave the dtype out for the default; loosen only what a correct kernel was seen to need.",
    ),
    "inexact-reference": LintRule(
        _WARNING,
        "A kernel may err as much as the reference itself does, so one that is that wrong passes.",
        "Compute in float32 or float64 inside forward, or give a dtype the reference is exact in.",
    ),
    "autocast": LintRule(
        _WARNING,
        "The judge computes on a CPU, where torch.autocast of a GPU does nothing; eager on a GPU is timed with it.",
        "Convert with .to(...) what is to be computed in fewer bits.",
    ),
    "open-choice": LintRule(
        _WARNING,
        "A kernel that chooses otherwise is right, too, and may fail.",
        "Draw values that differ, or choose with torch.sort(..., stable=True).",
    ),
    "one-sign": LintRule(
        _WARNING,
        "Tests miss lost signs, missing absolute values and wrong start values of a maximum.",
        "Where it may have both signs, use torch.randn; probabilities, weights and counts may stay as they are.",
    ),
    "narrow-inputs": LintRule(
        _WARNING,
        "Tests miss nearly equal elements that are swapped or read from the wrong place.",
        "Draw values that differ, such as torch.randn.",
    ),
    "no-hard-values": LintRule(
        _WARNING,
        "Sums and exponentials overflow or cancel only on values with a large mean or scale.",
        "Add a test workload with such values.",
    ),
    "writes-inputs": LintRule(
        _WARNING,
        "Kernels get their inputs read-only; in-place changes of the reference are not compared.",
        "Work on a copy and return it.",
    ),
    "one-shape": LintRule(
        _WARNING,
        "A kernel that works for this one shape only passes.",
        "Add test workloads of other sizes: one element, a prime, a multiple of the tile and one more.",
    ),
    "only-tiles": LintRule(
        _WARNING,
        "Kernels that never handle a partial tile pass, and write out of bounds at other sizes.",
        "Add a test workload with sizes that are not multiples of 8.",
    ),
    "small-benchmark": LintRule(
        _WARNING,
        "A launch alone takes some microseconds, so the launch is timed and not the kernel.",
        "Enlarge the benchmark's sizes.",
    ),
    "too-large": LintRule(
        _ERROR,
        "It cannot be timed here: one set of buffers must fit into half of its memory; the judge needs the rest.",
        "Make the benchmark's sizes smaller.",
    ),
    "no-benchmark": LintRule(
        _WARNING, "Nothing is timed, so no kernel is ever faster than another.", "Add a workload with role benchmark."
    ),
    "weak-baseline": LintRule(
        _NOTE,
        "Eager's time is mostly memory traffic between its kernels. Any fused kernel is that much faster; a good "
        "one is faster still.",
        "Compare with torch.compile (timed with eager on a GPU with a CUDA build of torch) and with the roofline. The "
        "graph does not tell whether torch.compile fuses everything, nor how fast a library call is.",
    ),
    "untraced": LintRule(
        _NOTE,
        "Without a graph there is no roofline, no check for impossible times and no kernel from the playbook.",
        "Avoid branches on values in forward, or state COMPULSORY bytes and FLOPs.",
    ),
    "unknown-operation": LintRule(
        _NOTE,
        "Its work is not counted, so too fast kernels are not suspected, and no menu of ideas is made for it.",
        "State COMPULSORY bytes and FLOPs; or write it with other operations.",
    ),
    "no-float64": LintRule(
        _NOTE,
        "Expected values carry the reference's own rounding, so TF32 and half precision may pass for float32.",
        "Let forward follow its inputs' dtype instead of naming one.",
    ),
    "existing-refused": LintRule(
        _WARNING,
        "The kernel to beat is not measured, so no candidate is compared with it.",
        "Repair the existing kernel; `cutegen check` shows its whole verdict.",
    ),
    "existing-fails": LintRule(
        _WARNING,
        "A wrong kernel is not measured; or the tests ask for what the problem's users never needed.",
        "Repair the existing kernel, or the workloads and the tolerance.",
    ),
    "existing-passes": LintRule(
        _NOTE, "The tests accept what is in use today.", "Nothing; its mutants show whether they are sharp enough."
    ),
    "wrong-alias": LintRule(
        _WARNING, "An export in place would write one tensor over another.", "Name an output and the input it replaces."
    ),
    "values-not-judged": LintRule(
        _NOTE,
        "A kernel that is wrong only on such values passes.",
        "Nothing where the reference is not defined; else keep it accurate there, or add a test with milder values.",
    ),
    "dropout-off": LintRule(
        _NOTE, "No kernel can reproduce its mask.", "Nothing, unless you want to optimise dropout."
    ),
    "batch-norm-training": LintRule(
        _NOTE,
        "As in KernelBench, it uses the batch's statistics, not the running ones.",
        "Call eval() in __init__ to use the running ones.",
    ),
}
