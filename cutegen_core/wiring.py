"""Choose the adapters of a session: its proposer, executor, compiler and reference."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.mutation.oracle import Oracle, Proof, widen
from cutegen_core.evaluate.mutation.trust import MutantSample, SuiteJudges
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.evaluate.stages.existing import ExistingKernel
from cutegen_core.evaluate.timing.measured import MeasuredPoints
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.choice import make_executor
from cutegen_core.execute.port import Executor, Progress
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.default_executor import default_executor
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.machine.turns import Turns
from cutegen_core.machine.workspace import cache_dir
from cutegen_core.propose import registry
from cutegen_core.propose.model_port import Model
from cutegen_core.propose.port import Proposer
from cutegen_core.records.errors import MachineError, UsageError
from cutegen_core.records.event import Role, SessionSettings
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store

_JUDGES_KEPT = 3
_TRIALS_AT_ONCE = 2
_ORACLE_SEED = 918_273_645
"""Another one than any check's: the oracle looks at other inputs than the suite."""


class ToolsOfSession(NamedTuple):
    """The tools of one session, made when first asked for."""

    tools: Tools
    session: str

    def proposer(self, state: State) -> Proposer:
        """Return the session's proposer; UsageError when this version has none for its settings."""
        return registry.make_proposer(self.tools.store, state.settings)

    def model(self, state: State, role: Role | None = None) -> Model | None:
        """Return who answers prompts of this role, or of any; None where a person carries them."""
        return registry.make_model(self.tools.store, state.settings, role)

    def evaluator(self, state: State) -> Evaluator:
        return self.tools.evaluator(self.session, state.settings, state.problem)

    @contextmanager
    def suite_judges(self, state: State, problem: str) -> Iterator[SuiteJudges]:
        """Give what checks a suite; nothing is timed, and the oracle starts when a mutant first needs it."""
        owner = f"{self.session}, its suite"
        with self.tools.at_work(owner):
            evaluator = self.tools.evaluator(owner, state.settings, problem, timed=False)
            oracle = _LazyOracle(evaluator)
            try:
                yield SuiteJudges(evaluator, oracle.find_difference, self.tools.sample)
            finally:
                oracle.close()
                self.tools.forget(owner)


class _LazyOracle:
    """The oracle of the existing kernel's mutants, with a reference of its own."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._reference: Reference | None = None
        self._oracle: Oracle | None = None

    def find_difference(self, source: str) -> Proof | None:
        if self._oracle is None:
            problem = self._evaluator.problem
            self._reference = Reference(widen(problem), Path(tempfile.mkdtemp(prefix="cutegen-oracle-")))
            self._oracle = Oracle(self._evaluator, self._reference, problem.existing, _ORACLE_SEED)
        return self._oracle.find_difference(source)

    def close(self) -> None:
        if self._reference:
            self._reference.close()
            shutil.rmtree(self._reference.scratch, ignore_errors=True)


class _Judges(NamedTuple):
    """The judges of a session's candidates: its reference, and on a GPU its timer and its existing kernel."""

    reference: Reference
    scratch: Path
    timer: Timer | None
    existing: ExistingKernel

    def close(self) -> None:
        if self.timer:
            self.timer.close()
        self.reference.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class Tools:
    """The tools that all sessions of an engine share.

    Compilers and executors are kept; judges are kept for the sessions at work and the latest few others.
    """

    sample = MutantSample()
    """How many mutants check a suite."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._compilers: dict[str, Compiler] = {}
        self._executors: dict[ExecutorKind, Executor] = {}
        self._judges: OrderedDict[str, _Judges] = OrderedDict()
        self._at_work: set[str] = set()
        self._turns = Turns(_TRIALS_AT_ONCE)

    def of_session(self, session: str) -> ToolsOfSession:
        return ToolsOfSession(self, session)

    @contextmanager
    def at_work(self, session: str) -> Iterator[ToolsOfSession]:
        """Give the tools of a session; inside the block its judges stay, however many other sessions ask for theirs."""
        with self._lock:
            self._at_work.add(session)
        try:
            yield self.of_session(session)
        finally:
            with self._lock:
                self._at_work.discard(session)

    def evaluator(self, owner: str, settings: SessionSettings, judged_by: str = "", *, timed: bool = True) -> Evaluator:
        """Return the evaluator of a session; `owner` keeps two sessions from sharing a reference worker.

        Args:
            judged_by: key of the problem in force (`State.problem`); by default the one that the session began with.
            timed: measure speed where the executor can.

        Raises:
            UsageError: there is no such executor here, or it cannot run what is compiled for the session's target.
        """
        problem = self.store.record(Problem, judged_by or settings.problem)
        return self.evaluator_of(owner, problem, settings.executor, settings.arch, timed=timed)

    def evaluator_of(
        self, owner: str, problem: Problem, kind: ExecutorKind | None, arch: str | None, *, timed: bool = True
    ) -> Evaluator:
        """Return an evaluator for a problem; by default, this machine's executor and architecture.

        Raises:
            UsageError: as for `evaluator`.
        """
        device = choose_device(arch)
        with self._lock:
            executor = self._executor(kind or default_executor(device), device)
            judges = self._judges_of(owner, problem, device if timed and executor.measures_speed else None)
            return Evaluator(
                problem=problem,
                reference=judges.reference,
                executor=executor,
                compiler=self._compiler(device.arch),
                device=device,
                keep=self.store.put,
                timer=judges.timer,
                existing=judges.existing,
                turns=self._turns,
                measured=MeasuredPoints(cache_dir("points"), device, problem) if judges.timer else None,
            )

    def forget(self, owner: str) -> None:
        """End the judges that were made for this owner."""
        with self._lock:
            judges = self._judges.pop(owner, None)
        if judges:
            judges.close()

    def warm(self, progress: Progress) -> None:
        """Prepare what the first trial would otherwise wait for.

        The compiler's packages are looked at, but it is not started (`warm_compiler`): kernels are often found in its
        cache, and otherwise the first one takes a second more.
        """
        with self._lock:
            device = choose_device(None)
            self._compiler(device.arch)
            executor = self._executor(default_executor(device), device)
        progress("preparing the executor (the emulator takes about a minute, once per machine)")
        executor.prepare(progress)
        if executor.measures_speed and peaks.load(device) is None:
            try:
                peaks.measure(device, progress)
            except MachineError as error:  # kernels can be tried and timed without bounds, and the page says so
                progress(f"no rooflines: {error}")

    def warm_compiler(self) -> None:
        """Start the compiler and precompile its headers, so that the first edit is compiled as fast as others."""
        with self._lock:
            compiler = self._compiler(choose_device(None).arch)
        compiler.warm()

    def close(self) -> None:
        """End every worker and remove their files."""
        for compiler in self._compilers.values():
            compiler.close()
        for executor in self._executors.values():
            executor.close()
        while self._judges:
            self._judges.popitem()[1].close()

    def _compiler(self, arch: str) -> Compiler:
        if arch not in self._compilers:
            self._compilers[arch] = Compiler(arch)
        return self._compilers[arch]

    def _executor(self, kind: ExecutorKind, device: Device) -> Executor:
        if kind not in self._executors:
            self._executors[kind] = make_executor(kind)
        executor = self._executors[kind]
        if executor.measures_speed and not device.present:
            raise UsageError(f"this machine's GPU cannot run code for {device.arch}; use the emulator")
        return executor

    def _judges_of(self, owner: str, problem: Problem, timed_on: Device | None) -> _Judges:
        kept = self._judges.get(owner)
        if kept and kept.reference.problem != problem:
            self._judges.pop(owner).close()
        if owner not in self._judges:
            scratch = Path(tempfile.mkdtemp(prefix="cutegen-reference-"))
            reference = Reference(problem, scratch)
            self._judges[owner] = _Judges(reference, scratch, self._timer(reference, timed_on), ExistingKernel())
            idle = [o for o in self._judges if o != owner and o not in self._at_work]
            for other in idle[: max(0, len(self._judges) - _JUDGES_KEPT)]:
                self._judges.pop(other).close()
        self._judges.move_to_end(owner)
        return self._judges[owner]

    def _timer(self, reference: Reference, device: Device | None) -> Timer | None:
        """Return a timer that gets ready while the first candidate is written and compiled."""
        if device is None:
            return None
        timer = Timer(reference, device)
        threading.Thread(target=timer.warm_up, daemon=True).start()
        return timer
