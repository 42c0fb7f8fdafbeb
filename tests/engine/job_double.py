"""Stands for the program of a job: a real process that speaks its protocol, and behaves as its settings' source says.

"blocks" trains: an epoch takes `graph.nodes` ms, and its checkpoint is a file with the number of the last one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutegen_core.records import as_json
from cutegen_core.records.gnn import (
    BatchStage,
    EpochReport,
    GraphFacts,
    RunProgress,
    RunResult,
    RunSettings,
    Span,
    StageTimes,
)

BATCHES = 4


def say(word: str, value: Any) -> None:
    print(json.dumps({word: value}), flush=True)


def report(epoch: int, seconds: float) -> EpochReport:
    part = seconds / BATCHES
    spans = tuple(
        span
        for batch in range(BATCHES)
        for span in (
            Span(BatchStage.PREPARE, f"prepare {batch % 2 + 1}", batch, batch * part, (batch + 1) * part),
            Span(BatchStage.COMPUTE, "compute", batch, (batch + 1) * part, (batch + 1.8) * part),
        )
    )
    times = StageTimes(seconds, 0.0, 0.8 * seconds, part, 0.0, threads=2)
    return EpochReport(1, epoch, seconds, BATCHES, 1000 * epoch, 2.0 / epoch, 1 - 0.5 / epoch, times, spans)


def train(settings: RunSettings) -> int:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    checkpoint = Path(settings.checkpoint or "nowhere") / "epoch"
    first = int(checkpoint.read_text()) + 1 if checkpoint.exists() else 1
    seconds, done = settings.graph.nodes / 1000, []
    for epoch in range(first, settings.epochs + 1):
        for batch in range(BATCHES):
            say(
                "progress",
                as_json.to_plain(RunProgress("training", 1, epoch, settings.epochs, batch, BATCHES, 2.0, 9.0)),
            )
            time.sleep(seconds / BATCHES)
            if stopped:
                return 143
        if settings.checkpoint:
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            checkpoint.with_suffix(".new").write_text(str(epoch))
            os.replace(checkpoint.with_suffix(".new"), checkpoint)
        done.append(report(epoch, seconds))
        say("report", as_json.to_plain(done[-1]))
    facts = GraphFacts("blocks", settings.graph.nodes, 16 * settings.graph.nodes, 64, 8, 500, 250, 250)
    machine = {"device": "this CPU", "processors": "2", "torch": "2.11.0"}
    say("result", as_json.to_plain(RunResult(settings, facts, machine, tuple(done), (0.9,), 0.9, 1.0, 0.904, 2.0, 0.5)))
    return 0


def deaf(_settings: RunSettings) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("progress", as_json.to_plain(RunProgress("not listening")))
    time.sleep(600)
    return 0


def complain(_settings: RunSettings) -> int:
    """Say that something failed once asked to end."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    say("progress", as_json.to_plain(RunProgress("listening")))
    while not asked:
        time.sleep(0.01)
    say("error", "what was under way has failed")
    return 1


def crash(_settings: RunSettings) -> int:
    print("Traceback: the card <b>fell</b> out", file=sys.stderr)
    return 7


def refuse(_settings: RunSettings) -> int:
    say("error", "no graph in /nowhere: it has no file graph.npz")
    return 1


def babble(settings: RunSettings) -> int:
    known = '{"progress": {"phase": 3}}', '{"progress": {}, "report": {}}'
    for line in ("torn {", "3", "{}", *known, "\x00", "[" * 9999):
        print(line, flush=True)
    return train(replace(settings, epochs=1))


def chatter(settings: RunSettings) -> int:
    for _ in range(60):
        print("x" * 99_999, file=sys.stderr)
    return train(replace(settings, epochs=1))


def endless(_settings: RunSettings) -> int:
    print("x" * 200_000, end="", flush=True)
    time.sleep(600)
    return 0


def leave_a_child(settings: RunSettings) -> int:
    """Start a child that holds the pipes open for ever."""
    if os.fork() == 0:
        time.sleep(600)
    Path(settings.checkpoint).mkdir(parents=True, exist_ok=True)
    return train(settings)


WAYS = {"blocks": train, "deaf": deaf, "crash": crash, "refuse": refuse, "babble": babble, "child": leave_a_child,
        "chatter": chatter, "complain": complain, "endless": endless, "quiet": lambda _: 0}  # fmt: skip


def main() -> int:
    file = Path(sys.argv[2])
    (file.parent / "pid").write_text(str(os.getpid()))
    settings = as_json.load(RunSettings, file.read_text())
    return WAYS[settings.graph.source](settings)


if __name__ == "__main__":
    sys.exit(main())
