"""Records of a trial: one pass of a candidate through the stages.

A candidate *passed* if its results are right; it *succeeded* if it merely ran. `LAWS` lists, for each status, the
fields that a trial must and must not carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from cutegen_core.records.performance import KernelEstimate, Performance


class ExecutorKind(StrEnum):
    """Where kernels run."""

    CPU = "cpu"
    """On the emulator."""
    GPU = "gpu"
    ELSEWHERE = "imported"
    """The session was imported: nothing runs here."""


EXECUTORS = (ExecutorKind.CPU, ExecutorKind.GPU)
"""What a candidate can be run by here."""


class Stage(StrEnum):
    """Stages of a trial, in order."""

    GENERATE = "GENERATE"
    PATCH = "PATCH"
    COMPILE = "COMPILE"
    TEST = "TEST"
    BENCHMARK = "BENCHMARK"
    PROFILE = "PROFILE"


class Status(StrEnum):
    """Verdict of a trial."""

    PASSED = "PASSED"
    UNPARSED = "UNPARSED"
    PATCH_FAILED = "PATCH_FAILED"
    REJECTED = "REJECTED"
    COMPILE_ERROR = "COMPILE_ERROR"
    COMPILE_LIMIT = "COMPILE_LIMIT"
    LAUNCH_ERROR = "LAUNCH_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIMEOUT = "TIMEOUT"
    UNSUPPORTED = "UNSUPPORTED"
    MEMORY_ERROR = "MEMORY_ERROR"
    INPUT_MODIFIED = "INPUT_MODIFIED"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    SUSPECT = "SUSPECT"


NO_KERNEL = (Status.UNPARSED, Status.PATCH_FAILED)
"""Verdicts on a reply that holds no kernel to try; the reply is kept in its place."""


class StageStatus(StrEnum):
    """How a stage ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Mark(StrEnum):
    """Reservation about a PASSED trial; `docs/words.md` explains each."""

    NOT_TIMED = "NOT_TIMED"
    NOT_SANITIZED = "NOT_SANITIZED"
    NO_FLOAT64 = "NO_FLOAT64"
    SMALL_SIZES = "SMALL_SIZES"
    WIDE_TOLERANCE = "WIDE_TOLERANCE"
    UNSTABLE = "UNSTABLE"
    CONFIRM = "CONFIRM"


WIDE = 10.0
"""From how many times the usual tolerance a result has the mark WIDE_TOLERANCE."""
_DIGITS, _ALL_DIGITS = 7, 17


@dataclass(frozen=True)
class StageResult:
    """Result of one stage.

    Attributes:
        note: why it was skipped, or what it did, in a few words ("from cache", "needs a GPU").
    """

    stage: Stage
    status: StageStatus
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Diagnostic:
    """One message about a line of the kernel file (0: the whole file).

    Attributes:
        severity: "error", "warning" or "hint".
        tool: the program that reports it: "plan", "nvrtc", "ptxas", "emulator", ...
        notes: folded context lines (instantiation stack and the like).
    """

    line: int
    severity: str
    message: str
    tool: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One defect found by the instrumented run.

    Attributes:
        kind: "out-of-bounds", "uninitialised", "race", "divergent-barrier", "misaligned", "timeout", ...
        variable: the tensor or shared variable, as the source names it.
        line: 1-based line of the kernel file, 0 when unknown.
        block, thread: coordinates (x, y, z) of the first thread with the defect.
    """

    kind: str
    message: str
    variable: str = ""
    line: int = 0
    kernel: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Mismatch:
    """One wrong element; of an output of whole numbers both are exact."""

    index: tuple[int, ...]
    got: int | float
    want: int | float

    @property
    def texts(self) -> tuple[str, str]:
        """Both numbers, with as many digits as tell them apart."""
        if isinstance(self.got, int) and isinstance(self.want, int):
            return str(self.got), str(self.want)
        for digits in (_DIGITS, _ALL_DIGITS):
            got, want = f"{self.got:.{digits}g}", f"{self.want:.{digits}g}"
            if got != want:
                break
        return got, want


@dataclass(frozen=True)
class Comparison:
    """One output of one run, compared with the reference.

    Attributes:
        wrong, total: elements outside the tolerance, elements in all.
        max_abs_error: largest |got - want| over finite pairs.
        error_ratio: largest error divided by the allowed error at that element (> 1 is wrong).
        reference_error: error of the reference itself at the declared precision, same units as max_abs_error.
        nan, inf, poison: wrong elements that are NaN, Inf, or still hold the poison bytes.
        first: the first mismatches in row-major order.
        pattern: what the errors have in common, in words ("only the last 3 columns", "got is want transposed").
        heatmap: wrong share per cell of the output folded to at most 32 x 32, row by row; empty if nothing is wrong.
        no_float64: why float64 expectations were not available and only the declared precision was compared; ""
            otherwise.
        widening: how many times the dtype's usual tolerance was allowed at the output's scale; 0 where unknown.
    """

    output: str
    shape: tuple[int, ...]
    wrong: int
    total: int
    max_abs_error: float
    error_ratio: float
    reference_error: float
    nan: int = 0
    inf: int = 0
    poison: int = 0
    first: tuple[Mismatch, ...] = ()
    pattern: str = ""
    heatmap: tuple[tuple[float, ...], ...] = ()
    no_float64: str = ""
    widening: float = 0.0

    @property
    def unwritten(self) -> bool:
        """Tell whether all that is wrong was never written."""
        return 0 < self.wrong == self.poison

    @property
    def wide(self) -> bool:
        """Whether much more is allowed than is usual for the dtype."""
        return self.widening > WIDE

    @property
    def sentence(self) -> str:
        """A wrong output in one line: how many elements, the first one, the pattern."""
        text = f"{self.wrong} of {self.total} elements of {self.output} are wrong"
        if self.first:
            first = self.first[0]
            got, want = first.texts
            text += f"; first at {list(first.index)}: got {got}, want {want}"
        return f"{text}; {self.pattern}" if self.pattern else text


@dataclass(frozen=True)
class WorkloadVerdict:
    """One run of the candidate on one workload.

    Attributes:
        mode: "checked" (instrumented), "plain" or "timed".
        seed: of the inputs, to replay the run.
        order: thread order of the emulator, "" on a GPU.
    """

    workload: str
    mode: str
    seed: int
    status: Status
    seconds: float
    order: str = ""
    message: str = ""
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Correctness:
    """Runs of the TEST stage, and of the comparisons in BENCHMARK.

    Attributes:
        sizes: on an executor that does not run the benchmarks: for each, up to which sizes the kernel was judged.
    """

    executor: ExecutorKind
    verdicts: tuple[WorkloadVerdict, ...]
    sizes: tuple[str, ...] = ()

    @property
    def first_failure(self) -> WorkloadVerdict | None:
        return next((v for v in self.verdicts if v.status is not Status.PASSED), None)


@dataclass(frozen=True)
class KernelResources:
    """Resources that the compiler allocated to one kernel."""

    kernel: str
    signature: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    smem_static_bytes: int
    instruction_mix: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Occupancy:
    """Theoretical occupancy of one launch of one workload on the target device.

    Attributes:
        limiter: the resource that stops another block from fitting: "registers", "shared memory", "threads" or
            "blocks".
        waves: grid / (blocks per SM * SMs).
    """

    workload: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem_bytes: int
    blocks_per_sm: int
    occupancy: float
    waves: float
    limiter: str


@dataclass(frozen=True)
class SharedAccess:
    """How a kernel's warps access shared memory, counted where the emulator ran it.

    Attributes:
        wavefronts: how often shared memory served a warp.
        least: how often it would have without bank conflicts.
        line: of the kernel file, where most is lost; 0 where nothing is, or the line is not known.
    """

    kernel: str
    wavefronts: int
    least: int
    line: int = 0

    @property
    def conflicts(self) -> float:
        """How many times as often as without bank conflicts; at least 1."""
        return max(1.0, self.wavefronts / self.least) if self.least else 1.0


@dataclass(frozen=True)
class Resources:
    """Results of the COMPILE stage; they need no GPU.

    Attributes:
        arch: "sm_90a", ...
        shared: how the kernels access shared memory; empty for those that do not, and where no emulator ran them.
        cubin, sass: blob keys in the store, "" if not kept.
    """

    arch: str
    kernels: tuple[KernelResources, ...]
    occupancy: tuple[Occupancy, ...]
    cubin: str = ""
    sass: str = ""
    compile_seconds: float = 0.0
    cached: bool = False
    shared: tuple[SharedAccess, ...] = ()

    @property
    def spill_bytes(self) -> int:
        return sum(k.spill_store_bytes + k.spill_load_bytes for k in self.kernels)


@dataclass(frozen=True)
class Trial:
    """One candidate taken through the stages once.

    Attributes:
        candidate: its key.
        message: the verdict in one line for the user, "" when PASSED.
        log: unedited compiler output.
        marks: reservations about a PASSED trial, sorted by name.
        estimate: of a kernel that passed where nothing is timed.
    """

    candidate: str
    status: Status
    stages: tuple[StageResult, ...]
    executor: ExecutorKind
    message: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    correctness: Correctness | None = None
    resources: Resources | None = None
    performance: Performance | None = None
    marks: tuple[Mark, ...] = ()
    started_at: float = 0.0
    cached: bool = False
    estimate: KernelEstimate | None = None

    def __post_init__(self) -> None:
        law = LAWS[self.status]
        missing = [name for name in law.must if not getattr(self, name)]
        extra = [name for name in law.must_not if getattr(self, name)]
        if missing:
            raise ValueError(f"a {self.status} trial must carry {', '.join(missing)}")
        if extra:
            raise ValueError(f"a {self.status} trial must not carry {', '.join(extra)}")

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED

    @property
    def failed_stage(self) -> Stage | None:
        return next((r.stage for r in self.stages if r.status is StageStatus.FAILED), None)


class Law(NamedTuple):
    """Fields of a `Trial` that a status fills and fields that it leaves empty; all others may be either.

    A trial can fail at its second benchmark workload, so every status of a candidate that ran may hold times.
    """

    must: tuple[str, ...]
    must_not: tuple[str, ...]


_TESTED = ("resources", "correctness")
_UNRUN = ("correctness", "performance", "marks")

LAWS: Mapping[Status, Law] = {
    Status.PASSED: Law(_TESTED, ("message",)),
    Status.UNPARSED: Law(("message",), ("resources", *_UNRUN)),
    Status.PATCH_FAILED: Law(("message",), ("resources", *_UNRUN)),
    Status.REJECTED: Law(("message", "diagnostics"), _UNRUN),
    Status.COMPILE_ERROR: Law(("message", "diagnostics"), ("resources", *_UNRUN)),
    Status.COMPILE_LIMIT: Law(("message",), _UNRUN),
    Status.LAUNCH_ERROR: Law(("message", "resources"), ("marks",)),
    Status.UNSUPPORTED: Law(("message", "resources"), ("marks",)),
    **{
        s: Law(("message", *_TESTED), ("marks",))
        for s in (
            Status.RUNTIME_ERROR, Status.TIMEOUT, Status.MEMORY_ERROR, Status.INPUT_MODIFIED, Status.INCORRECT_SHAPE,
            Status.INCORRECT_DTYPE, Status.INCORRECT_NUMERICAL, Status.NONDETERMINISTIC, Status.SUSPECT,
        )
    },
}  # fmt: skip
"""Which fields each status fills and leaves empty; `Trial` refuses a record that breaks this."""
