"""The candidates: the playbook's for every built-in problem, the existing kernels that some begin with, and the
hand-written ones of `tests/data/kernels`.

A hand-written kernel is NAME.cu; its problem is a built-in one, or NAME.py or another's .py beside it. WRITTEN says for
each what it exercises and how close GPU and emulator must be; WRONG names the defect that both have to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.crosscheck import closeness
from benchmarks.crosscheck.closeness import Closeness
from cutegen_core.judge.reference import Reference
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole

KERNELS = Path(__file__).parents[2] / "tests" / "data" / "kernels"


@dataclass(frozen=True)
class Case:
    """One candidate.

    Attributes:
        name: unique, "problem/variant" or the file's stem.
        problem: built-in name, or path of a file.
        family: what it exercises, for the table.
        defect: what is wrong with it; "" for a right kernel.
        source: the kernel file; the playbook's are written when asked for, since they need the traced graph.
    """

    name: str
    problem: str
    family: str
    closeness: Closeness
    defect: str = ""
    source: str = ""

    @property
    def variant(self) -> int:
        """Which of the playbook's; -1 for a hand-written one."""
        return -1 if self.source else int(self.name.rpartition("/")[2]) - 1


class Written(NamedTuple):
    """A hand-written kernel: its problem (its own name when ""), what it exercises, how close it must be."""

    family: str
    closeness: Closeness
    problem: str = ""


_ELEMENTWISE = (
    "gelu", "leaky_relu", "merge_attn_states_lse", "relu", "sigmoid", "silu_and_mul", "softsign", "swish", "tanh",
)  # fmt: skip
_REDUCTIONS = ("max_reduction", "mean_reduction", "sum_reduction")
_NORMALISATIONS = ("add_rmsnorm", "fused_add_rmsnorm", "layernorm", "logsoftmax", "rmsnorm", "softmax")
_VARIANTS = 3

WRITTEN = {
    "scale_add_bf16": Written("elementwise, bfloat16", closeness.SMALL_FLOAT),
    "axpy_half2": Written("elementwise, half2", closeness.EXACT),
    "bias_gelu": Written("broadcast", closeness.ROUNDING),
    "saturating_add": Written("elementwise, int16", closeness.EXACT),
    "image_normalise": Written("elementwise, uint8", closeness.ROUNDING),
    "masked_select": Written("elementwise, bool and int64", closeness.EXACT),
    "integer_bits": Written("integer intrinsics", closeness.EXACT),
    "fast_functions": Written("approximate intrinsics and PTX", closeness.APPROXIMATE),
    "rope_bf16": Written("elementwise, sine and cosine", closeness.SMALL_FLOAT),
    "layernorm_warp": Written("normalisation, warp shuffles", closeness.SUMS, "layernorm"),
    "softmax_online": Written("softmax, one pass", closeness.SUMS, "softmax"),
    "group_norm": Written("normalisation, dynamic shared memory", closeness.SUMS),
    "row_normalise": Written("cooperative groups", closeness.SUMS),
    "attention": Written("attention", closeness.SUMS),
    "cross_entropy": Written("several launches, scratch", closeness.SUMS),
    "distance_fp64": Written("row reduction, float64", closeness.ROUNDING),
    "integer_rows": Written("warp reductions, int32", closeness.EXACT),
    "rank_of_positives": Written("votes", closeness.EXACT),
    "argmax": Written("64-bit atomics", closeness.EXACT),
    "row_scan": Written("scan", closeness.SUMS),
    "long_scan": Written("scan, several launches", closeness.EXACT),
    "sort_rows": Written("sorting network", closeness.EXACT),
    "embedding": Written("gather", closeness.EXACT),
    "segment_sum": Written("scatter, float atomics", closeness.ANY_ORDER),
    "histogram": Written("shared and global atomics", closeness.EXACT),
    "transpose": Written("transposition, swizzled tile", closeness.EXACT),
    "head_permute": Written("permutation, 128-bit", closeness.EXACT),
    "conv2d": Written("convolution, halo tile", closeness.SUMS),
    "depthwise_conv": Written("convolution, depthwise", closeness.SUMS),
    "max_pool": Written("pooling, two outputs", closeness.EXACT),
    "int8_matvec": Written("dp4a", closeness.EXACT),
    "gemm_async": Written("matrix product, cp.async", closeness.SUMS, "gemm_fp32"),
    "splitk_atomics": Written("matrix product, split-K, atomics", closeness.ANY_ORDER, "gemm_fp32"),
    "splitk_scratch": Written("matrix product, split-K, scratch", closeness.SUMS, "gemm_fp32"),
    "gemm_bf16": Written("tensor cores, bfloat16", closeness.TENSOR_CORE),
    "gemm_f16": Written("tensor cores, float16", closeness.TENSOR_CORE),
    "gemm_tf32": Written("tensor cores, TF32", closeness.TENSOR_CORE),
    "grand_total": Written("cooperative launch", closeness.SUMS),
    "grand_total_cluster": Written("cluster", closeness.SUMS, "grand_total"),
}

WRONG = {
    "writes_past_end": Written("out of bounds, write", closeness.EXACT, "relu"),
    "reads_past_end": Written("out of bounds, read", closeness.EXACT, "relu"),
    "shared_too_small": Written("out of bounds, shared memory", closeness.SUMS, "row_normalise"),
    "missing_barrier": Written("race, missing barrier", closeness.SUMS, "row_normalise"),
    "race_on_tile": Written("race, missing second barrier", closeness.EXACT, "transpose"),
    "race_in_warp": Written("race within a warp", closeness.SUMS, "row_normalise"),
    "race_between_blocks": Written("race between blocks", closeness.ANY_ORDER, "segment_sum"),
    "no_cp_async_wait": Written("cp.async never waited for", closeness.EXACT, "transpose"),
    "divergent_barrier": Written("divergent barrier", closeness.SUMS, "row_normalise"),
    "misaligned": Written("misaligned vector access", closeness.EXACT, "transpose"),
    "uninitialised_shared": Written("uninitialised shared memory", closeness.EXACT, "histogram"),
    "skips_tail": Written("skips the tail", closeness.EXACT, "relu"),
    "half_written": Written("leaves elements unwritten", closeness.EXACT, "relu"),
    "transposed": Written("wrong layout", closeness.SUMS, "gemm_fp32"),
    "low_precision": Written("bfloat16 for float32", closeness.SUMS, "gemm_fp32"),
    "writes_input": Written("writes its input", closeness.EXACT, "relu"),
    "endless": Written("never ends", closeness.EXACT, "relu"),
    "waits_for_flag": Written("waits for what never comes", closeness.EXACT, "relu"),
}

DOCUMENTED = {
    "wrong/race_in_warp": "the lanes of a warp happened to run in step on this GPU, and compute-sanitizer reports no "
    "error for it; the language promises no such order, so the emulator refuses it",
}
"""Cases on which the two are known to differ, and why."""


def cases() -> tuple[Case, ...]:
    """Return every candidate, the playbook's first."""
    wrong = _written(WRONG, KERNELS / "wrong", wrong=True)
    return (*_playbook(), *_existing(), *_written(WRITTEN, KERNELS), *wrong)


def _playbook() -> Iterator[Case]:
    for problem in library.catalogue():
        family, allowed = _family(problem.name)
        for number in range(1, _VARIANTS + 1):
            yield Case(f"{problem.name}/{number}", problem.name, f"playbook: {family}", allowed)


def _existing() -> Iterator[Case]:
    for problem in library.catalogue():
        if problem.existing:
            family, allowed = _family(problem.name)
            name, label = f"{problem.name}/existing", f"existing: {family}"
            yield Case(name, problem.name, label, allowed, source=problem.existing)


def _family(problem: str) -> tuple[str, Closeness]:
    if problem in ("rotary_embedding", "per_token_quant_fp8"):
        return ("elementwise" if problem == "rotary_embedding" else "quantisation"), closeness.SMALL_FLOAT
    if problem == "topk_softmax":
        return "selection", closeness.SUMS
    if problem in ("relu", "max_reduction"):
        return ("elementwise" if problem == "relu" else "row reduction"), closeness.EXACT
    if problem in _ELEMENTWISE:
        return "elementwise", closeness.ROUNDING
    if problem in _REDUCTIONS:
        return "row reduction", closeness.SUMS
    if problem in _NORMALISATIONS:
        return "normalisation", closeness.SUMS
    return "matrix product", closeness.SUMS


def _written(table: dict[str, Written], folder: Path, *, wrong: bool = False) -> Iterator[Case]:
    for name, entry in table.items():
        own = KERNELS / f"{entry.problem or name}.py"
        problem = str(own) if own.exists() else entry.problem
        source = (folder / f"{name}.cu").read_text()
        label = f"wrong/{name}" if wrong else name
        yield Case(label, problem, entry.family, entry.closeness, entry.family if wrong else "", source)


def problem_of(case: Case) -> Problem:
    """Return the case's problem with its workloads."""
    own = Path(case.problem)
    return library.read_problem(own) if own.suffix == ".py" else library.load(case.problem)


def source_of(case: Case, reference: Reference) -> str:
    """Return the kernel file; a playbook variant is written from the reference's graph."""
    if case.source:
        return case.source
    workload = reference.problem.with_role(WorkloadRole.BENCHMARK)[0]
    variants = playbook.propose(reference.graph(workload), reference.signature(workload), reference.problem.name)
    return variants[case.variant].source


def workloads_of(problem: Problem) -> tuple[Workload, ...]:
    """Return the largest ragged and the largest other workload with given values, and the first adversarial one."""
    small = problem.with_role(WorkloadRole.EMULATOR)
    given = [w for w in small if w.values is Values.GIVEN]
    ragged = [w for w in given if w.name in ("ragged", "prime")] or given[:1]
    tiles = [w for w in given if w.name == "tile"]
    adversarial = [w for w in small if w.values is not Values.GIVEN]
    return (*ragged[:1], *tiles[:1], *adversarial[:1])
