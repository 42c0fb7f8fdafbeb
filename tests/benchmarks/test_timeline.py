"""Where the time of a trial goes: the functions that are recorded exist, and spans are printed nested."""

import subprocess
import sys

from benchmarks.toolchain import timeline
from benchmarks.toolchain.timeline import Span

_WATCH = """
import sys
from pathlib import Path
from benchmarks.toolchain import timeline
for names in {several}:
    timeline.Timeline(Path(sys.argv[1])).watch(names)
"""


def test_every_function_that_is_recorded_exists(tmp_path):
    several = [timeline._HERE, *timeline._IN_WORKERS.values()]
    command = [sys.executable, "-c", _WATCH.format(several=several), str(tmp_path / "spans")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_worker_is_recorded_as_it_serves(tmp_path, monkeypatch, capsys):
    """The worker's functions are replaced when it begins to serve, and each request is a span."""
    (tmp_path / "echoing.py").write_text(
        "def answer(request):\n    return {'said': request['op']}\n\n"
        "def serve(handle):\n    print(handle({'op': 'greet'}))\n\n"
        "def main():\n    serve(lambda request: answer(request))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(timeline._IN_WORKERS, "echoing", ("echoing:answer",))
    monkeypatch.setattr(sys, "argv", ["timeline", str(tmp_path / "spans"), "echoing"])
    timeline._run_worker()
    assert capsys.readouterr().out == "{'said': 'greet'}\n"
    assert [span.what for span in timeline.read(tmp_path / "spans")] == ["handle(greet)", "answer(greet)"]


def test_spans_are_printed_nested_per_thread_and_short_ones_left_out():
    spans = [Span(1, 3, 7, 1, "whole"), Span(1, 2, 7, 1, "part"), Span(1.5, 1.501, 7, 1, "tiny"), Span(2, 4, 8, 1, "b")]
    printed = [line.split(maxsplit=2) for line in timeline.lines(spans)]
    assert printed == [["0.000", "2.000", "p0t0    whole"], ["0.000", "1.000", "p0t0      part"],
                       ["1.000", "2.000", "p1t1    b"]]  # fmt: skip
