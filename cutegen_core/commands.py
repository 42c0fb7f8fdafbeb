"""Carry out the commands of the command line: each returns its exit code, and with `--json` prints one document."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from secrets import randbits

from cutegen_core import PACKAGE, engine, views
from cutegen_core.doctor.report import measure, run_checks
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import decode
from cutegen_core.machine.device import choose_device
from cutegen_core.printing import Narrator, print_json, print_trial, problem_json, session_json
from cutegen_core.problems import library
from cutegen_core.problems.lint import command as lint_command
from cutegen_core.propose import registry
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind
from cutegen_core.records.errors import KernelFileError, UsageError
from cutegen_core.records.event import AnsweredBy, Role, SessionState
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Diagnostic, ExecutorKind, Stage, StageResult, StageStatus, Status, Trial
from cutegen_core.records.wording import counted
from cutegen_core.session import start
from cutegen_core.session.moves import WORKING
from cutegen_core.share.exports import FORMATS, export
from cutegen_core.share.imports import import_path, plain_cu
from cutegen_core.trajectory.state import Step
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import make_executor


def serve(arguments: argparse.Namespace) -> int:
    script = _app()
    options = [f"--server.port={arguments.port}", f"--server.headless={str(arguments.no_browser).lower()}"]
    return subprocess.call([sys.executable, "-m", "streamlit", "run", str(script), *options], cwd=script.parent)


def _app() -> Path:
    """Return `app.py` as the wheel installed it (`setup.py` packs it), or the clone's. Its folder has the settings of
    the server, `.streamlit`, too."""
    places = (
        PACKAGE / "web" / "app.py",
        PACKAGE.parent / "app.py",
    )  # another package may install an `app.py` beside us
    script = next((place for place in places if place.exists()), None)
    if script is None:
        raise UsageError(f"there is no app.py in {places[0].parent} or {places[1].parent}: install the workbench again")
    return script


def show_doctor(arguments: argparse.Namespace) -> int:
    if arguments.measure:
        print(measure(lambda line: print(line, file=sys.stderr)), file=sys.stderr)
    findings = run_checks()
    if arguments.json:
        print_json([as_json.to_plain(finding) for finding in findings])
    for finding in () if arguments.json else findings:
        print(f"{finding.state:8} {finding.name:24} {finding.detail}")
        if finding.fix:
            print(f"{'':33} fix: {finding.fix}")
    return 0


def list_problems(arguments: argparse.Namespace) -> int:
    if arguments.lint is not None:
        return lint_command.lint(arguments)
    listing = library.load_path(Path(arguments.path)) if arguments.path else library.list_known()
    if arguments.json:
        print_json(
            {
                "loaded": listing.loaded,
                "total": listing.total,
                "problems": [problem_json(entry) for entry in listing.entries],
            }
        )
        return 0
    for entry in listing.entries:
        title = entry.problem.title if entry.problem else f"cannot be loaded: {entry.error}"
        print(f"{entry.name:32} {title}")
    print(f"{listing.loaded} of {listing.total} loaded")
    return 0


def check(arguments: argparse.Namespace) -> int:
    data = _read_kernel(arguments.file)
    problem = library.load(arguments.problem)
    device = choose_device(arguments.arch)
    executor = make_executor(arguments.executor or start.default_executor(device))
    seed = randbits(31) if arguments.seed is None else arguments.seed
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-check-"))
        store, compiler = Store(), Compiler(device.arch)
        reference = Reference(problem, Path(scratch))
        timer = stack.enter_context(Timer(reference, device)) if executor.measures_speed else None
        for close in (store.close, compiler.close, reference.close, executor.close):
            stack.callback(close)
        evaluator = Evaluator(problem, reference, executor, compiler, device, store.put, timer)
        try:
            candidate = Candidate(decode(data), Author.IMPORT)
            trial = evaluator.evaluate(candidate, seed=seed, watch=Narrator(arguments.json), thorough=True)
        except KernelFileError as error:
            trial = _unreadable(data, error)
    if arguments.json:
        print_json(as_json.to_plain(trial))
    else:
        print_trial(trial)
    return 0 if trial.passed else 1


def run(arguments: argparse.Namespace) -> int:
    store = Store()
    strategy = _single(arguments.strategy) if arguments.single_agent else arguments.strategy
    return _finish(arguments, store, _start(arguments, store, strategy, dict(arguments.role)))


def twin(arguments: argparse.Namespace) -> int:
    """Run Astra with four roles, then with one, and compare."""
    store = Store()
    runs = []
    chosen: Mapping[Role, AnsweredBy] = dict(arguments.role)
    for agents, strategy, roles in (("four roles", "astra", chosen), ("one role", _single("astra"), {})):
        session = _start(arguments, store, strategy, roles)
        _follow(store, session, quiet=arguments.json)
        runs.append(views.agent_run(store, session, agents))
    if arguments.json:
        print_json([as_json.to_plain(run) for run in runs])
    for line in () if arguments.json else views.agent_lines(runs):
        print(line)
    return 0 if all(run.state is SessionState.ACCEPTED for run in runs) else 1


def _single(strategy: str) -> str:
    """Return the strategy's twin with one role."""
    if f"{strategy}-single" not in registry.STRATEGIES:
        raise UsageError(f"the strategy {strategy!r} has no twin with one role; give --strategy astra")
    return f"{strategy}-single"


def _start(arguments: argparse.Namespace, store: Store, strategy: str, roles: Mapping[Role, AnsweredBy]) -> str:
    problem = library.load(arguments.problem)
    if arguments.executor:
        make_executor(arguments.executor)
    registry.check(strategy, arguments.proposer, roles)
    registry.check_problem(strategy, problem)
    return start.create(
        store,
        problem,
        answered_by=arguments.proposer,
        strategy=strategy,
        executor=arguments.executor,
        autonomy=Autonomy.AUTO if arguments.auto else Autonomy.STEP,
        max_steps=arguments.max_steps,
        arch=arguments.arch,
        model=_model(arguments) if AnsweredBy.LLM in (arguments.proposer, *roles.values()) else "",
        max_tokens=arguments.budget_tokens,
        roles=roles,
        allow_regressions=arguments.allow_regressions,
    )


def _model(arguments: argparse.Namespace) -> str:
    """Return the name of the model settings to use; write `--base-url` into `models.toml` as settings of its own."""
    models = model_settings.read()
    if not arguments.base_url:
        return str(arguments.model)
    if not arguments.model:
        raise UsageError("--base-url needs --model NAME, the model's name on that server")
    made = ModelSettings(arguments.model, arguments.base_url, arguments.model)
    others = tuple(s for s in models.settings if s.name != made.name)
    model_settings.write(replace(models, settings=(*others, made)))
    return made.name


def replay(arguments: argparse.Namespace) -> int:
    store = Store()
    path = Path(arguments.session)
    recorded = import_path(store, path).session if path.exists() else store.find_session(arguments.session)
    settings = views.session_view(store, recorded).state.settings
    session = start.create(
        store,
        store.record(Problem, settings.problem),
        answered_by=AnsweredBy.RECORDING,
        executor=arguments.executor,
        autonomy=Autonomy.AUTO,
        max_steps=10_000,
        arch=arguments.arch or settings.arch,
        recording=recorded,
    )
    return _finish(arguments, store, session)


def import_(arguments: argparse.Namespace) -> int:
    imported = import_path(Store(), arguments.path)
    if arguments.json:
        print_json(imported._asdict())
    else:
        print(f"session {imported.session}: {counted(imported.steps, 'step')}. {imported.note}")
    return 0


def import_kernel(arguments: argparse.Namespace) -> int:
    problem = library.load(arguments.problem)
    made = plain_cu.import_kernel(
        decode(_read_kernel(arguments.file)), arguments.file.name, problem, function=arguments.function
    )
    if arguments.output:
        arguments.output.write_text(made.text, encoding="utf-8")
    if arguments.json:
        facts = {"function": made.function, "complete": made.is_complete, "notes": made.notes}
        holes = [hole._asdict() for hole in made.holes]
        written = {"path": str(arguments.output)} if arguments.output else {"text": made.text}
        print_json({"file": str(arguments.file), "problem": problem.name, **facts, "holes": holes, **written})
        return 0 if made.is_complete else 1
    if not arguments.output:
        print(made.text, end="")
    for note in made.notes:
        print(note, file=sys.stderr)
    for hole in made.holes:
        where = f"{arguments.file.name}:{hole.line}: " if hole.line else ""
        print(f"{where}{hole.name} must be completed by hand: {hole.place}: {hole.text}", file=sys.stderr)
    return 0 if made.is_complete else 1


def _finish(arguments: argparse.Namespace, store: Store, session: str) -> int:
    """Follow a session to its end and print how it went."""
    state = _follow(store, session, quiet=arguments.json)
    view = views.session_view(store, session)
    best = view.state.best_step
    if arguments.json:
        print_json(session_json(store, session))
    else:
        print(f"session {session}: {state} - {view.state.reason}")
        print(f"best: {best.idea if best else 'none'}")
    return 0 if state is SessionState.ACCEPTED else 1


def _describe_end(step: Step) -> str:
    """Return what a closed step came to, in one line."""
    if step.status is None:
        return f"no kernel: {step.note or step.outcome}"
    return f"{step.idea}: {step.status} {step.outcome}"


def _follow(store: Store, session: str, *, quiet: bool) -> SessionState:
    """Wait until the session needs a person or is over; print each step as it ends."""
    done = threading.Event()
    threading.Thread(target=engine.keep_running, args=(done,), daemon=True).start()
    told = 0
    try:
        while True:
            view = views.session_view(store, session)
            closed = [step for step in view.state.steps if step.outcome is not None]
            for step in closed[told:]:
                if not quiet:
                    print(f"step {step.number}: {_describe_end(step)}", file=sys.stderr)
            told = len(closed)
            if view.state.status not in WORKING:
                return view.state.status
            time.sleep(0.1)
    except KeyboardInterrupt:
        store.submit(session, Decision(DecisionKind.STOP))
        raise
    finally:
        done.set()


def list_sessions(arguments: argparse.Namespace) -> int:
    store = Store()
    rows = views.session_rows(store)
    for session, why in views.unreadable_sessions(store).items():
        print(f"session {session} cannot be read: {why}", file=sys.stderr)
    if arguments.json:
        print_json([row._asdict() for row in rows])
    for row in () if arguments.json else rows:
        print(f"{row.id}  {row.status:16} {row.problem:24} {row.proposer:10} {row.steps} steps  {row.best_idea}")
    return 0


def show(arguments: argparse.Namespace) -> int:
    store = Store()
    session = store.find_session(arguments.session)
    if arguments.json:
        print_json(session_json(store, session))
        return 0
    view = views.session_view(store, session)
    print(f"{view.state.settings.problem_name}: {view.state.status} {view.state.reason}")
    for suite in view.state.suites:
        print(f"    suite of step {suite.step}, {'trusted' if suite.trusted else 'not trusted'}: {suite.message}")
    for step in view.steps:
        mark = "*" if step.is_best else " "
        print(f"{mark}{step.number:3} {step.status or '-':20} {step.outcome or '-':12} {step.idea}")
        if step.message:
            print(f"      {step.message}")
    return 0


def export_session(arguments: argparse.Namespace) -> int:
    store = Store()
    session = store.find_session(arguments.session)
    if not arguments.json and FORMATS[arguments.format].compiles:
        print("compiling with nvcc, if installed; this takes a minute or two", file=sys.stderr)
    exported = export(store, session, arguments.format, arguments.output, original=arguments.original)
    if arguments.json:
        facts = {"path": str(exported.path), "checked": exported.checked, "note": exported.note}
        print_json({"session": session, "format": arguments.format, **facts})
    else:
        print(f"{exported.path} ({exported.checked}) {exported.note}")
    return 0


def _read_kernel(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _unreadable(data: bytes, error: KernelFileError) -> Trial:
    """Return the verdict on a file that cannot be read as a kernel file."""
    patch = StageResult(Stage.PATCH, StageStatus.FAILED, 0.0, Status.REJECTED)
    diagnostic = Diagnostic(error.line, "error", str(error), "plan")
    return Trial(content_key(data), Status.REJECTED, (patch,), ExecutorKind.CPU, str(error), (diagnostic,))
