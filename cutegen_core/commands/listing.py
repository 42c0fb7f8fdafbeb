"""List the sessions: the command that must answer at once, so nothing is imported that compiles, runs or draws."""

from __future__ import annotations

import argparse
import json
import sys

from cutegen_core.commands.arguments import Subcommands, add_command
from cutegen_core.records import as_json
from cutegen_core.records.wording import counted
from cutegen_core.trajectory.read import every_summary
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.summaries import SessionRow, SessionSummary


def add(subcommands: Subcommands) -> None:
    add_command(subcommands, "sessions", list_sessions, "list the sessions of this workspace")


def list_sessions(arguments: argparse.Namespace) -> int:
    found = every_summary(Store())
    rows = [SessionRow.of(session, said) for session, said in found.items() if isinstance(said, SessionSummary)]
    for session, said in found.items():
        if not isinstance(said, SessionSummary):
            print(f"session {session} cannot be read: {said}", file=sys.stderr)
    if arguments.json:
        print(json.dumps([as_json.to_plain(row._asdict()) for row in rows]))
    for row in () if arguments.json else rows:
        steps = counted(row.steps, "step")
        print(f"{row.id}  {row.status:16} {row.problem:24} {row.proposer:10} {steps}  {row.best_idea}")
    return 0
