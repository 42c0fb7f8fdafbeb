"""Puts the adapters together: which proposer, executor, compiler and reference a session works with."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from cutegen_core.compiler.compilation import Compiler
from cutegen_core.device import target
from cutegen_core.errors import UsageError
from cutegen_core.evaluator import Evaluator
from cutegen_core.event import SessionSettings
from cutegen_core.executor import Executor, Progress
from cutegen_core.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference
from cutegen_core.model import Model
from cutegen_core.problem import Problem
from cutegen_core.proposer import Proposer
from cutegen_core.proposers.playbook import PlaybookProposer
from cutegen_core.proposers.replay import ReplayProposer
from cutegen_core.session_state import State
from cutegen_core.store import Store
from cutegen_core.strategies.cutegen import CutegenStrategy

PROPOSERS = ("playbook", "llm", "manual", "replay")
EXECUTORS = ("cpu",)
_REFERENCES_KEPT = 3


def executor_named(name: str) -> Executor:
    """The executor of that name; UsageError, saying why, when this version or machine has none."""
    if name == "cpu":
        return CpuExecutor()
    if name == "gpu":
        raise UsageError("the GPU executor is not part of this version; use --executor cpu (the emulator)")
    raise UsageError(f"unknown executor {name!r}; there is {', '.join(EXECUTORS)}")


class Bench(NamedTuple):
    """The tools of one session, made when first asked for."""

    tools: Tools
    session: str

    def proposer(self, state: State) -> Proposer:
        """The proposer the session was started with; UsageError when this version has none of that name."""
        name = state.settings.proposer
        if name == "playbook":
            return PlaybookProposer()
        if name in ("llm", "manual"):
            return CutegenStrategy()
        if name == "replay":
            return self._replay(state)
        raise UsageError(f"unknown proposer {name!r}; there is {', '.join(PROPOSERS)}")

    def model(self, state: State) -> Model | None:
        """Who answers prompts; None: a person carries them."""
        if state.settings.proposer == "replay":
            return self._replay(state)
        if state.settings.proposer != "llm":
            return None
        from cutegen_core.proposers.llm import ChatAnswers  # the openai package takes half a second to import

        return ChatAnswers()

    def _replay(self, state: State) -> ReplayProposer:
        return ReplayProposer(self.tools.store, state.settings.recording)

    def evaluator(self, state: State) -> Evaluator:
        return self.tools.evaluator(self.session, state.settings)


class Tools:
    """Shared by all sessions of an engine: compilers and executors are kept, reference workers for the latest few."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._compilers: dict[str, Compiler] = {}
        self._executors: dict[str, Executor] = {}
        self._references: OrderedDict[str, tuple[Reference, Path]] = OrderedDict()

    def bench(self, session: str) -> Bench:
        return Bench(self, session)

    def evaluator(self, owner: str, settings: SessionSettings) -> Evaluator:
        """The evaluator of one session; `owner` keeps two sessions from sharing a reference worker."""
        problem = self.store.record(Problem, settings.problem)
        with self._lock:
            return Evaluator(
                problem=problem,
                reference=self._reference(owner, problem),
                executor=self._executors.setdefault(settings.executor, executor_named(settings.executor)),
                compiler=self._compiler(settings.arch),
                device=target(settings.arch),
                keep=self.store.put,
            )

    def warm(self, progress: Progress) -> None:
        """Makes ready what the first trial would otherwise wait for."""
        with self._lock:
            compiler = self._compiler(target(None).arch)
            executor = self._executors.setdefault("cpu", CpuExecutor())
        progress("preparing the CUDA compiler")
        compiler.warm()
        progress("preparing the emulator (once per machine, about a minute)")
        executor.prepare(progress)

    def close(self) -> None:
        """Ends every worker and removes their files."""
        for compiler in self._compilers.values():
            compiler.close()
        while self._references:
            self._close_oldest()

    def _compiler(self, arch: str) -> Compiler:
        if arch not in self._compilers:
            self._compilers[arch] = Compiler(arch)
        return self._compilers[arch]

    def _reference(self, owner: str, problem: Problem) -> Reference:
        kept = self._references.get(owner)
        if kept is None:
            scratch = Path(tempfile.mkdtemp(prefix="cutegen-reference-"))
            self._references[owner] = kept = (Reference(problem, scratch), scratch)
            if len(self._references) > _REFERENCES_KEPT:
                self._close_oldest()
        self._references.move_to_end(owner)
        return kept[0]

    def _close_oldest(self) -> None:
        _, (reference, scratch) = self._references.popitem(last=False)
        reference.close()
        shutil.rmtree(scratch, ignore_errors=True)
