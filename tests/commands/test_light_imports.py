"""A kernel is checked without importing what only other commands need."""

import subprocess
import sys

SLOW = ("numpy", "torch", "jinja2", "cutegen_core.propose.playbook", "cutegen_core.views")
PROGRAM = f"""
import sys
import cutegen_core.commands.checking
from cutegen_core import checking
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.executors.choice import make_executor
print(sorted(set(sys.modules) & set({SLOW})))
"""


def test_check_imports_nothing_slow():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_check_begins_without_records():
    """An engine, if one runs, is asked after these imports; alone, torch's import begins after them."""
    asked = "cli.main(['check', 'none.cu', '--problem', 'relu'])"
    program = f"import sys; from cutegen_core import cli; {asked}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "cutegen_core.commands.checking" in done.stdout.split()
    assert not {"pydantic", "cutegen_core.commands.listing", *SLOW} & set(done.stdout.split())


def test_run_begins_without_a_proposer():
    """The engine makes it. Beside an engine that starts, the command would take a processor from torch's import."""
    program = "import sys, cutegen_core.commands.refining_options; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    strategies = {f"cutegen_core.propose.{name}.strategy" for name in ("astra", "cutegen")}
    slow = {"numpy", "torch", "jinja2", "cutegen_core.propose.playbook", *strategies}
    assert "cutegen_core.propose.registry" in done.stdout.split()
    assert not slow & set(done.stdout.split())


def test_a_sandboxed_tool_waits_for_nothing_slow():
    """A kernel is built by six of them: each waits for these imports before it begins."""
    program = "import sys; import cutegen_core.machine.sandbox.launcher; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert {"cutegen_core.machine.sandbox.launcher"} == set(done.stdout.split()) & {
        "cutegen_core.machine.sandbox.launcher", "dataclasses", "json", "pathlib", "platform", "re", "socket",
        "subprocess", "typing",
    }  # fmt: skip
