"""Measure the processor time of tests, with that of every process that they start: browsers, engines, compilers.

    python -m tests.processor_time tests/kernel          # any arguments of pytest; one process of tests

Other work on the machine makes a second of a core do less, but adds nothing: this can be compared where wall time
cannot. A hundredth of a second a test is the measuring.

1. This process takes in whatever loses its parent, so that nobody's time is lost.
2. The tests run in a child, with this module as a plugin: after each test it adds up the times of all processes below
   this one, and of those that have ended.
3. At the end the sums by file and by test are printed, the largest first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.conditions import adopt_orphans

_ROOT = "TESTS_PROCESSOR_TIME_OF"
"""Names the process whose descendants are added up."""
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 40
_PARENT, _OWN, _ENDED = 1, slice(11, 13), slice(13, 15)
"""Fields of /proc/PID/stat behind the command's name: times of a process, and of its children that have ended."""


def seconds_below(root: int) -> float:
    """Return the processor time of a process's descendants, living or ended."""
    processes: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            processes[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended, and its parent has its time
    children: dict[int, list[int]] = {}
    for pid, fields in processes.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    ticks, left = -sum(map(int, processes[root][_OWN])), [root]
    for pid in left:
        ticks += sum(map(int, processes[pid][_OWN] + processes[pid][_ENDED]))
        left += children.get(pid, ())
    return ticks / _TICKS


class ByTest:
    """The plugin: the time from the end of one test to the end of the next is the next one's."""

    def __init__(self, root: int) -> None:
        self._root, self._last = root, seconds_below(root)
        self.spent: dict[str, float] = defaultdict(float)

    def _add_to(self, name: str) -> None:
        now = seconds_below(self._root)
        self.spent[name] += now - self._last
        self._last = now

    def pytest_collection_finish(self) -> None:
        self._add_to("collecting")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._add_to(nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._add_to("ending")
        files: dict[str, float] = defaultdict(float)
        for name, seconds in self.spent.items():
            files[name.partition("::")[0]] += seconds
        terminalreporter.section(f"seconds of a core: {sum(files.values()):.1f}")
        for counted in (files, self.spent):
            for name, seconds in sorted(counted.items(), key=lambda item: -item[1])[:_MOST]:
                terminalreporter.write_line(f"{seconds:8.2f}  {name}")
            terminalreporter.write_line("")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ByTest(int(os.environ[_ROOT])), "processor time by test")


def main(arguments: list[str]) -> int:
    adopt_orphans()
    command = [sys.executable, "-m", "pytest", "-p", "tests.processor_time", "-n", "0", *arguments]
    tests = subprocess.Popen(command, env=os.environ | {_ROOT: str(os.getpid())})
    while True:  # whatever it left ends here, too
        pid, status = os.wait()
        if pid == tests.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
