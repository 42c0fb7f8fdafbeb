"""Run the GNN workload in the foreground: progress on standard error, the result on standard output."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cutegen_core.machine import parent
from cutegen_core.printing import print_json
from cutegen_core.records import as_json
from cutegen_core.records.errors import MachineError, StoppedError, StoreError, UsageError
from cutegen_core.records.gnn import KERNEL_PREFIX, EpochReport, RunProgress, RunResult, RunSettings
from cutegen_core.records.gnn_fields import BY_NAME, read_settings
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.share.exports.run_file import RecordedRun, recorded, write_run
from cutegen_core.share.imports.run_file import import_run_file
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn

MODULE, CONVERTER = "cutegen_core.workloads.gnn", "cutegen_core.workloads.gnn.data"
_STOP_S = 10.0


def run(arguments: argparse.Namespace) -> int:
    """Train, infer or bench as the options say.

    Raises:
        UsageError: --save names a folder that does not exist.
    """
    settings = _settings(arguments)
    if arguments.save and not arguments.save.absolute().parent.is_dir():
        raise UsageError(f"--save: there is no folder {arguments.save.absolute().parent}")
    started = time.time()
    epochs, result = _follow(settings, Narration(quiet=arguments.json))
    if arguments.save:
        write_run(RecordedRun(settings, epochs, result, started, time.time()), arguments.save)
    if arguments.json:
        print_json(as_json.to_plain(result))
    else:
        for line in _summary(settings, epochs, result):
            print(line)
    return 0


def convert(arguments: argparse.Namespace) -> int:
    """Convert a graph in a process of its own, which dies with this one.

    Raises:
        UsageError: the conversion ended with an error.
    """
    paths = [str(arguments.path.expanduser()), str(arguments.output.expanduser())]
    command = parent.command(CONVERTER, *paths, *(["--undirected"] if arguments.undirected else []))
    done = subprocess.run(command, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {"error": f"the converter ended with exit code {done.returncode}; see its messages above"}
    if "error" in said:
        raise UsageError(said["error"])
    made = said["converted"]
    if arguments.json:
        print_json(made)
    else:
        graph = made["graph"]
        print(f"{made['path']}: {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['classes']} classes")
        if made["repeated_edges"]:
            print(f"{made['repeated_edges']:,} edges occurred before and were left out")
    return 0


def import_(arguments: argparse.Namespace) -> int:
    imported = import_run_file(Store(), arguments.path)
    if arguments.json:
        print_json(imported._asdict())
    else:
        print(f"run {imported.job}: {imported.epochs} epochs; the page GNN training shows it at gnn?job={imported.job}")
    return 0


def export(arguments: argparse.Namespace) -> int:
    store = Store()
    job = jobs.find(store, arguments.job)
    write_run(recorded(store, job), arguments.output)
    if arguments.json:
        print_json({"job": job, "path": str(arguments.output)})
    else:
        print(arguments.output)
    return 0


def _settings(arguments: argparse.Namespace) -> RunSettings:
    given = {name: value for name, value in vars(arguments).items() if name in BY_NAME and value is not None}
    settings, wrong = read_settings({**given, "task": str(arguments.task)})
    if settings.aggregate.startswith(KERNEL_PREFIX) and (why := gnn.kernel_problem(Store(), settings.aggregate)):
        wrong["aggregate"] = why
    if wrong:
        raise UsageError(" ".join(f"{BY_NAME[name].option}: {text}" for name, text in wrong.items()))
    return settings


# ---- the process


def _follow(settings: RunSettings, narration: Narration) -> tuple[tuple[EpochReport, ...], RunResult]:
    """Run the process to its end, and tell what it says.

    Raises:
        MachineError: it ended without a result; the text is its own.
        StoppedError: Ctrl-C.
    """
    epochs: list[EpochReport] = []
    result, failed = None, ""
    with tempfile.TemporaryDirectory(prefix="cutegen-gnn-") as folder:
        file = Path(folder) / "settings.json"
        file.write_text(as_json.dump(settings))
        with _process(file) as process:
            assert process.stdout is not None
            for line in process.stdout:
                match _said(line):
                    case EpochReport() as epoch:
                        epochs.append(epoch)
                        narration.epoch(epoch)
                    case RunProgress() as progress:
                        narration.progress(progress)
                    case RunResult() as found:
                        result = found
                    case str(text):
                        failed = text
            code = process.wait()
    narration.end()
    if result is None or failed:
        raise MachineError(
            failed or f"the run ended with exit code {code} and without a result; see its messages above"
        )
    return tuple(epochs), result


def _said(line: bytes) -> object:
    """Return the record of a line, the text of an error, or None with a message for a line that is neither."""
    kinds: dict[str, type[Any]] = {"progress": RunProgress, "report": EpochReport, "result": RunResult}
    try:
        ((word, value),) = json.loads(line).items()
        return str(value) if word == "error" else as_json.load(kinds[word], json.dumps(value))
    except (ValueError, AttributeError, KeyError, RecursionError, StoreError):
        print(f"not understood: {line[:200].decode(errors='replace').rstrip()}", file=sys.stderr)
        return None


@contextlib.contextmanager
def _process(settings: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process, which dies with this one; on Ctrl-C ask it to stop, and on a second one kill it."""
    process = subprocess.Popen(
        parent.command(MODULE, "--settings", str(settings)), env=_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    except KeyboardInterrupt:
        print("stopping ...", file=sys.stderr)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.communicate(timeout=_STOP_S)
        raise StoppedError(
            "stopped. With --checkpoint FOLDER the same command goes on where it was; without, it begins anew."
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


# ---- words


class Narration:
    """What a run says on standard error: a line per epoch and phase, and on a terminal a line that changes."""

    def __init__(self, *, quiet: bool) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._quiet = quiet
        self._phase, self._open = "", False

    def progress(self, progress: RunProgress) -> None:
        if self._on_terminal and not self._quiet:
            print(f"\r\x1b[K{gnn.progress_words(progress)}", end="", file=sys.stderr, flush=True)
            self._open = True
        elif progress.phase != self._phase:
            print(f"{progress.phase} ...", file=sys.stderr, flush=True)
        self._phase = progress.phase

    def epoch(self, epoch: EpochReport) -> None:
        self.end()
        accuracy = "" if epoch.accuracy is None else f", accuracy {100 * epoch.accuracy:.1f} %"
        ran = f" ({epoch.aggregate}, {epoch.mode})" if epoch.aggregate else ""
        words = f"epoch {epoch.epoch}{ran}: {gnn.duration(epoch.seconds)}, loss {epoch.loss:.4g}{accuracy}"
        print(words, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._open = False


def _summary(settings: RunSettings, epochs: tuple[EpochReport, ...], result: RunResult) -> list[str]:
    """Return the figures that the page shows, a line each."""
    title = gnn.run_title(settings)
    view = gnn.view_of(Job("", JobKind.GNN, title, "", JobState.DONE), settings, epochs, result=result)
    lines = [f"{title}: {gnn.computed_on(view)}"]
    lines += [f"  {name:40} {value:>24}  {device}" for name, value, device in gnn.figure_rows(view)]
    for one in result.aggregates:
        share = "" if one.share is None else f", aggregation {one.share:.0%} of it"
        only = gnn.duration(one.compute_only_s)
        lines.append(f"  {one.aggregate}: an epoch {gnn.duration(one.epoch_s)}, compute only {only}{share}")
    notes = [*result.notes, *([result.kernel_note] if result.kernel_note else [])]
    return lines + [f"  {words}" for words in notes]
