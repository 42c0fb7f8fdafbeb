"""Give a test run a workspace of its own, so that nothing of the user's is touched, and put its tests in order.

With `-n 2` each worker of pytest-xdist has a workspace below the run's, and the run's caches by a link; what is kept
between runs is in `tests/kept.py`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from cutegen_core.machine import garbage
from tests import kept

if TYPE_CHECKING:
    from tests.shared_tools import SharedTools

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
garbage.collect_seldom()
_kept = kept.kept_folder()
_run = ExitStack()
if _WORKER:
    _home = Path(os.environ["CUTEGEN_HOME"]) / _WORKER
    _home.mkdir()
    (_home / "cache").symlink_to(_home.parent / "cache")
else:
    _home = Path(_run.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-tests-", ignore_cleanup_errors=True)))
os.environ["CUTEGEN_HOME"] = str(_home)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch's threads would wait for one another by computing
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell began the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _opens_store(event: str, given: tuple[Any, ...]) -> None:
    """Refuse to open the workspace's store as a file: closing it drops the locks that SQLite holds for this process,
    whose later connections then miss what other processes write."""
    if event == "open" and str(given[0]).startswith(_STORE) and not given[2] & os.O_EXCL:
        raise AssertionError(f"{given[0]} is SQLite's: read it in another process")


_STORE = f"{_home}/store.db"
sys.addaudithook(_opens_store)

IMPORTED = pytest.StashKey[frozenset[str]]()
"""The modules that collecting the tests has imported."""

LONGEST_FIRST = (
    "browser/test_softmax_scenario.py", "browser/test_editor.py", "browser/test_editing_mode.py",
    "browser/test_sizes.py", "browser/test_kept_typing.py", "browser/test_present.py", "browser/test_access.py",
    "browser/test_accessibility.py", "browser/test_tabs.py", "browser/test_login.py", "browser/test_first_run.py",
    "browser/test_hostile_strings.py", "browser/test_address.py", "browser/test_decisions.py",
    "browser/test_model_loop.py", "browser/test_served.py",
    "browser/test_installed.py", "browser/test_change.py", "browser/test_timeline.py", "browser/test_keyboard.py",
    "browser/test_reload.py", "browser/test_roles.py", "browser/test_gnn.py", "execute/compiler/test_compilation.py",
    "adversarial/test_corpus.py", "test_cli.py", "propose/llm/test_model_faults.py", "engine/test_engine.py",
    "engine/test_jobs.py", "machine/test_sandbox.py", "problems/test_lint.py", "session/test_loop.py",
    "test_text_costs.py", "propose/playbook/test_playbook.py", "adversarial/test_endurance.py",
    "problems/test_library.py", "pages/test_problems_page.py", "propose/llm/test_chat.py",
    "execute/emulator/test_hopper.py", "execute/emulator/test_bugs.py", "execute/emulator/test_ampere.py",
    "judge/gpu/test_judge.py", "execute/emulator/test_kernels.py", "session/test_timed.py", "propose/test_replay.py",
    "propose/cutegen/test_strategy.py", "adversarial/test_mistakes.py", "adversarial/test_walls.py",
    "pages/test_model_pages.py", "share/test_library.py", "share/test_exports.py",
    "benchmarks/test_crosscheck_corpus.py", "evaluate/test_evaluator.py", "execute/emulator/test_same_verdict.py",
    "judge/reference_process/test_derived_values.py", "problems/test_catalogue.py", "trajectory/test_old_store.py",
    "test_house.py", "pages/test_performance_pages.py", "pages/test_session_page.py",
    "evaluate/timing/test_statistics.py", "propose/astra/test_whole.py", "propose/cutegen/test_prompting.py",
    "evaluate/mutation/test_study.py", "judge/reference_process/test_hostile_references.py",
    "session/test_defects.py",
)  # fmt: skip
"""Files that take long, the longest first, so that all workers end at the same time. Those of the browser are dealt out
in turn: the sums of both groups are about equal."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workbench")
    group.addoption("--thorough", action="store_true", help="run the thorough tests, too: docs/thorough-tests.md")
    group.addoption("--fresh", action="store_true", help="use no build of an earlier run, and keep none")


def pytest_configure(config: pytest.Config) -> None:
    _examples(anew=config.getoption("--thorough"))
    if _WORKER:
        return
    if config.getoption("--fresh"):
        (_home / "cache").mkdir()
    else:
        _run.enter_context(kept.linked(_kept, _home / "cache"))


def _examples(*, anew: bool) -> None:
    """Have Hypothesis draw the same examples in every run, unless it is asked for new ones; no example is too slow."""
    settings.register_profile("workbench", derandomize=not anew, database=None, deadline=None, print_blob=True)
    settings.load_profile("workbench")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    gc.collect()
    gc.freeze()  # pytest collects five more times, to warn of what fails in that: once is enough for what tests left


def pytest_unconfigure() -> None:
    _run.close()


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[IMPORTED] = frozenset(sys.modules)
    gc.collect()
    gc.freeze()  # thousands of tests and their modules stay to the end: no later collection looks at them again


@pytest.fixture(scope="session")
def workspace_home() -> Path:
    """The workspace every process of this worker uses."""
    return _home


@pytest.fixture(scope="session", autouse=True)
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedTools]:
    """The tools of this process. A reference's files may lie in any folder that pytest makes."""
    from tests.shared_tools import SHARED  # half the workbench: what deals the tests out needs none of it

    SHARED.folder = tmp_path_factory.getbasetemp()
    yield SHARED
    SHARED.close()


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is thorough unless that is asked for, keep a file on one worker, and begin with the longest."""
    _leave_to_the_thorough(items)
    if not config.getoption("--thorough") and "thorough" not in config.getoption("markexpr"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    rank = {name: number for number, name in enumerate(LONGEST_FIRST)}
    files = {item.path: item.path.relative_to(Path(__file__).parent).as_posix() for item in items}
    items.sort(key=lambda item: rank.get(files[item.path], len(rank)))
    groups = _groups(list(dict.fromkeys(files[item.path] for item in items)))
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(groups.get(files[item.path], files[item.path])))


def _leave_to_the_thorough(items: Sequence[pytest.Item]) -> None:
    """Mark all cases of a test but those that `by_default` counts; these are spread evenly over its cases."""
    cases: dict[tuple[Path, str, int], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("by_default")
        if mark is not None and not item.get_closest_marker("thorough"):
            assert isinstance(item, pytest.Function)
            cases.setdefault((item.path, item.originalname, *mark.args), []).append(item)
    for (_, _, count), same in cases.items():
        stay = {number * len(same) // count for number in range(count)}
        for number, item in enumerate(same):
            if number not in stay:
                item.add_marker("thorough")


def _groups(files: Sequence[str]) -> dict[str, str]:
    """Deal browser tests out to two processes: each has a server, an engine, a browser, which cost it seven seconds."""
    shown = [file for file in files if file.startswith("browser/")]
    return {file: f"browser {number % 2}" for number, file in enumerate(shown)}
