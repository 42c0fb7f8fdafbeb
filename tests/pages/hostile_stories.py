"""Sessions with the hostile strings in every place that a model, a log, a kernel, a person or a file can put text.

Each place has a name, and its texts carry it (`hostile_strings.placed`): a page can be asked for all of one place.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.evaluate.sweep import SweepRow, SweepTable
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Role,
    SessionCreated,
    StageEnded,
    StageStarted,
    StateChanged,
    StepStarted,
    Studied,
    Tried,
)
from cutegen_core.records.event import SessionState as State
from cutegen_core.records.performance import Bound, Metric, Performance, Untimed
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import (
    Comparison,
    Diagnostic,
    ExecutorKind,
    Finding,
    Mark,
    Mismatch,
    Stage,
    StageResult,
    StageStatus,
    Status,
)
from cutegen_core.trajectory.store import Store
from tests.hostile_strings import STRINGS, placed
from tests.pages.gpu_stories import conditions, measured, profile, resources, timed
from tests.pages.stories import KERNEL, Story, not_compiled, race

ALL = range(len(STRINGS))
IDEAS, BROKEN, WRONG, ASKED, TIMED = (
    len(STRINGS),
    len(STRINGS) + 1,
    len(STRINGS) + 2,
    len(STRINGS) + 3,
    len(STRINGS) + 4,
)
"""Steps: one a string, then one that does not compile, one that is wrong, one a model was asked for, one timed."""


def lines(place: str) -> str:
    """Return all strings at this place, each on lines of its own."""
    return "\n".join(placed(i, place) for i in ALL)


def one_line(place: str) -> str:
    return " ".join(" ".join(placed(i, place).split("\n")) for i in ALL)


def problem() -> Problem:
    workloads = tuple(Workload(placed(i, "workload"), WorkloadRole.EMULATOR) for i in ALL)
    return Problem(one_line("name"), one_line("title"), lines("reference"), one_line("origin"), workloads,
                   allow=(one_line("allow"),))  # fmt: skip


def source(place: str) -> str:
    """Return a kernel that says each string in a comment line of its own."""
    comments = (" ".join(placed(i, place).replace("\r", "\n").split("\n")) for i in ALL)
    return KERNEL + "".join(f"// {text}\n" for text in comments)


def hostile_session(store: Store) -> Story:
    """Wait at the promotion of its last step."""
    story = _begun(store)
    _ideas(story)
    _broken(story)
    _wrong(story)
    _asked(story)
    _timed(story)
    return story.publish()


def hostile_import(store: Store) -> Story:
    """Return a read-only session from a file whose name is the strings."""
    story = _begun(store, origin=f"imported from {one_line('file')}")
    story.propose(KERNEL, placed(0, "first"))
    return story.publish()


def hostile_call(store: Store) -> Story:
    """Make a session in which a model is asked, while no engine runs; set its text so far as the live text."""
    story = _begun(store)
    story.add(StepStarted(1, None), StateChanged(State.RUNNING), StageStarted(1, Stage.GENERATE))
    story.add(ModelCalled(1, Role.PROPOSER, store.put("A prompt."), one_line("caller"), 100))
    return story.publish()


def _begun(store: Store, origin: str = "here") -> Story:
    story = Story(store).begin(
        held=True, executor=ExecutorKind.GPU, device=one_line("device"), max_steps=2 * len(STRINGS)
    )
    key, shown = store.put_record(problem()), problem()
    story.settings = replace(
        story.settings, problem=key, problem_name=shown.name, title=shown.title, model=one_line("model"), origin=origin,
        answered_by=AnsweredBy.LLM,
    )  # fmt: skip
    assert story.held is not None
    story.held[0] = replace(story.held[0], event=SessionCreated(story.settings))
    return story


def _ideas(story: Story) -> None:
    for i in ALL:
        story.steps += 1
        key = story.store.put(f"{KERNEL}// {i}\n")
        story.add(
            StepStarted(story.steps, story.base, placed(i, "instruction")),
            Proposed(story.steps, key, Author.MODEL, placed(i, "idea")),
            Tried(story.steps, key, "", Status.TIMEOUT, registers=20 + i % 4),
        )
        story.close(Outcome.REJECTED, placed(i, "reason"))
    story.add(Decided(Decision(DecisionKind.STANDING, text=lines("standing"))))


def _broken(story: Story) -> None:
    said = tuple(
        Diagnostic(1 + i, "error", placed(i, "diagnostic"), placed(i, "tool"), (placed(i, "context"),)) for i in ALL
    )
    menu = " -> ".join(" ".join(placed(i, "chip").split()) for i in range(0, 10, 2))
    plan = f"kernel: {lines('plan')}\nMenu: {menu}."
    story.base = story.store.put(KERNEL)
    key = story.propose(source("comment"), one_line("wholeidea"), plan=plan)
    trial = not_compiled(key)
    stages = (*trial.stages[:-1], replace(trial.stages[-1], note=one_line("stage")))
    trial = replace(trial, stages=stages, message=one_line("message"), diagnostics=said, log=lines("log"))
    story.test(trial).close(Outcome.FAILED, one_line("note"))
    story.add(Decided(Decision(DecisionKind.MEMORY, text=one_line("told"), step=story.steps)))


def _wrong(story: Story) -> None:
    key = story.propose(source("second"), "wrong")
    trial = race(story.store, key)
    findings = tuple(
        Finding(placed(i, "kind"), " ".join(placed(j, "finding") for j in ALL[i::20]), placed(i, "variable"), 1 + i)
        for i in range(20)
    )
    bad = Comparison(one_line("output"), (8,), 1, 8, 1.0, 2.0, 0.1, first=(Mismatch((0,), 1.0, 0.0),),
                     pattern=one_line("pattern"), heatmap=((0.5, 0.0),))  # fmt: skip
    assert trial.correctness is not None
    assert trial.resources is not None
    first = trial.correctness.verdicts[-1]
    failed = replace(first, message=one_line("failure"), findings=findings, comparisons=(bad,))
    runs = tuple(replace(first, workload=placed(i, "run"), mode=placed(i, "mode")) for i in ALL)
    row = trial.resources.occupancy[0]
    rows = tuple(replace(row, workload=placed(i, "occupancy"), limiter=placed(i, "limiter")) for i in ALL)
    counts = {placed(i, "class"): 1000 - i for i in ALL}
    kernel = replace(trial.resources.kernels[0], kernel=one_line("kernel"), signature="k", instruction_mix=counts)
    spent = replace(trial.resources, arch=one_line("arch"), occupancy=rows, kernels=(kernel,), sass=_sass(story.store))
    tested = replace(trial.correctness, verdicts=(failed, *runs))
    story.test(replace(trial, message=one_line("verdict"), correctness=tested, resources=spent))
    story.close(Outcome.FAILED, "wrong")


def _sass(store: Store) -> str:
    """Return SASS as the disassembler writes it, with the strings as instructions and as headers."""
    text = ['\t.section .text.k,"ax"']
    for i in ALL:
        header = " ".join(placed(i, "header").replace('"', "").splitlines())
        text.append(f'//## File "{header}", line 1 inlined at "candidate.cu", line {20 + i}')
        text.append(f"        /*{16 * i:04x}*/  {' '.join(placed(i, 'sass').splitlines())} ;")
    return store.put("\n".join(text))


def _asked(story: Story) -> None:
    """Play a repair: diagnosed by a model, then refused by the parser."""
    story.steps += 1
    number, store = story.steps, story.store
    prompt, reply = store.put(lines("prompt")), store.put(lines("reply"))
    story.add(
        StepStarted(number, story.base, one_line("redirect"), repair=True),
        ModelCalled(number, Role.DIAGNOSIS, prompt, one_line("asked"), 100),
        ModelAnswered(number, Role.DIAGNOSIS, prompt, reply, one_line("finish"), 10, 10),
        ModelCalled(number, Role.REPAIR, prompt, "second", 100),
        ModelAnswered(number, Role.REPAIR, prompt, reply, error=one_line("refused")),
        StageEnded(number, StageResult(Stage.GENERATE, StageStatus.FAILED, 0.1)),
    )
    story.close(Outcome.UNANSWERED, one_line("unanswered"))


def _timed(story: Story) -> None:
    store = story.store
    key = story.propose(source("third"), "timed")
    sweep = SweepTable(
        tuple(
            SweepRow({"BLOCK": 32 * (1 + i)}, Status.INCORRECT_NUMERICAL, placed(i, "combination"), 32, 0, 1.0, 1 + i)
            for i in ALL
        ), 0, 0, one_line("decided"), 1, one_line("pruned"),
    )  # fmt: skip
    story.add(Studied(StudyKind.SWEEP, "", store.put(as_json.dump(sweep)), step=story.steps))
    usual = measured(131.2, 140.0, workload=one_line("timedload"))
    untimed = tuple(Untimed(placed(i, "contender"), placed(i, "why")) for i in ALL)
    where = conditions(
        device=one_line("gpu"),
        driver=one_line("driver"),
        throttled=tuple(placed(i, "throttle") for i in ALL),
    )
    bounds = (*usual.bounds, Bound(one_line("bound"), 1, 1, one_line("pipe"), 1.0, 1.0))
    performance = Performance((replace(usual, untimed=untimed, conditions=where, bounds=bounds),))
    trial = timed(store, key, performance, marks=tuple(Mark))
    story.test(replace(trial, resources=resources(store, 32)))
    found = profile(130.0, 40, 95.0)
    kernel = found.kernels[0]
    costs = tuple(replace(kernel.lines[0], line=20 + i, stall=placed(i, "stall"), samples=10 + i) for i in ALL)
    kernel = replace(
        kernel, kernel=one_line("profiled"), advice=tuple(placed(i, "advice") for i in ALL), lines=costs,
        metrics=(*kernel.metrics, *(Metric(placed(i, "metric"), 1.0, placed(i, "unit")) for i in ALL)),
    )  # fmt: skip
    shown = replace(found, tool=one_line("profiler"), workload=one_line("profileload"), kernels=(kernel,))
    story.add(Studied(StudyKind.PROFILE, key, store.put(as_json.dump(shown))))
    story.gate(Gate.PROMOTION, key, one_line("gate"))
