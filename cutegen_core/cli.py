"""The command line: `cutegen app | doctor | problems | check | run | twin | bench | replay | import | import-kernel |
sessions | show | export | gnn`.

Every command takes `--json`: then standard output holds one JSON document and nothing else; progress goes to stderr.
Exit codes: 0 done (for `check` and `run`: passed, accepted), 1 not passed, 2 wrong usage or the machine's fault.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from cutegen_core import __version__, engine
from cutegen_core.commands.arguments import Command
from cutegen_core.machine import garbage
from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records.errors import CutegenError

_LONGEST_MESSAGE, _LONGEST_NAME = 500, 200
_OPTIONS = {
    "machine_options": ("app", "doctor"), "kernel_options": ("problems", "import-kernel"), "checking": ("check",),
    "tuning": ("tune",),
    "refining_options": ("run", "twin", "resume", "replay"), "bench_options": ("bench",), "listing": ("sessions",),
    "session_options": ("show", "import", "export"), "gnn_options": ("gnn",),
}  # fmt: skip
"""The modules that add commands: a command imports only its own, since compilers, proposers and formats take time."""

_BY_ENGINE = ("run", "twin", "resume", "replay")
_HELP = {"-h", "--help"}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments without repeating their control characters, or thousands of letters."""

    def error(self, message: str) -> NoReturn:
        super().error(show_hidden(message[:_LONGEST_MESSAGE]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    garbage.collect_seldom()
    if argv is None:
        _end_as_by_ctrl_c()
    given = sys.argv[1:] if argv is None else argv
    if argv is None and given and given[0] in _BY_ENGINE and not _HELP & set(given):
        with contextlib.suppress(OSError, CutegenError):  # the command says what is wrong
            engine.ensure_running()  # it begins while this process imports its own modules
    arguments = _parser(given[0] if given else "").parse_args(given)
    command: Command = arguments.command
    try:
        done = command(arguments)
        sys.stdout.flush()
        return done
    except BrokenPipeError:
        _drop_output()
        return 2
    except CutegenError as error:
        return _fail(arguments, str(error))
    except sqlite3.Error as error:
        return _fail(arguments, f"the store failed: {error}. Check the disk and the workspace, and try again.")
    except OSError as error:
        where = f"{str(error.filename)[:_LONGEST_NAME]}: " if error.filename else ""
        return _fail(arguments, f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        return _fail(arguments, "interrupted; `cutegen sessions` shows the state of a session")


def _end_as_by_ctrl_c() -> None:
    """Take what ends a process, or closes its terminal, as Ctrl-C: a command then stops what it began."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores the second
            signal.signal(number, signal.default_int_handler)


def _fail(arguments: argparse.Namespace, what: str) -> int:
    """Say what went wrong, as JSON too where that was asked for."""
    try:
        if getattr(arguments, "json", False):
            print(json.dumps({"error": what}))
        sys.stdout.flush()
    except OSError:  # the output itself may be what failed
        _drop_output()
    print(f"cutegen: {show_hidden(what)}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Let the rest of the output go nowhere: Python would write it at its end, and fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_names() -> tuple[str, ...]:
    """Return the names of all commands."""
    actions = _parser()._subparsers
    assert actions is not None
    return tuple(next(iter(actions._group_actions)).choices or ())


def _parser(wanted: str = "") -> argparse.ArgumentParser:
    """Return the parser of the wanted command, or of all where there is none of this name."""
    parser = _Parser(prog="cutegen", description="From a PyTorch reference to a tested CuTe kernel.")
    parser.add_argument("--version", action="version", version=f"cutegen {__version__}")
    subcommands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in [module for module, names in _OPTIONS.items() if wanted in names] or _OPTIONS:
        import_module(f"cutegen_core.commands.{module}").add(subcommands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
