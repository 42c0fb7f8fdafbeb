"""List and lint problems, and make a kernel file of a plain `.cu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

from cutegen_core.commands.standalone import read_kernel
from cutegen_core.kernel.kernel_file import decode
from cutegen_core.printing import print_json, problem_json
from cutegen_core.problems import library
from cutegen_core.problems.lint import command as lint_command
from cutegen_core.propose.playbook import Coverage
from cutegen_core.share.imports import plain_cu
from cutegen_core.views.who_proposes import ask_about_all


def list_problems(arguments: argparse.Namespace) -> int:
    if arguments.lint is not None:
        return lint_command.lint(arguments)
    listing = library.load_path(Path(arguments.path), _say) if arguments.path else library.list_known()
    covered = _covered(listing) if arguments.playbook else repeat(None, listing.total)
    if arguments.json:
        found = [
            {**problem_json(entry), **({"playbook": known._asdict()} if known else {})}
            for entry, known in zip(listing.entries, covered, strict=True)
        ]
        print_json({"loaded": listing.loaded, "total": listing.total, "problems": found})
        return 0
    recognised = 0
    for entry, known in zip(listing.entries, covered, strict=True):
        title = entry.problem.title if entry.problem else f"cannot be loaded: {entry.error}"
        print(f"{entry.name:32} {_coverage_line(known) if known else title}", flush=True)
        recognised += bool(known and known.kernels)
    print(f"{listing.loaded} of {listing.total} loaded")
    if arguments.playbook:
        print(f"the playbook knows {recognised} of {listing.loaded}")
    return 0


def _covered(listing: library.FolderListing) -> Iterator[Coverage | None]:
    """Yield what the playbook has for every entry as soon as it is known, None for one that could not be loaded."""
    answers = ask_about_all([entry.problem for entry in listing.entries if entry.problem])
    for position, entry in enumerate(listing.entries, 1):
        if entry.problem:
            _say(f"the playbook is asked, {position} of {listing.total}: {entry.name}")
        yield next(answers) if entry.problem else None


def _say(line: str) -> None:
    """Show progress: a folder takes seconds a file."""
    print(line, file=sys.stderr)


def _coverage_line(found: Coverage) -> str:
    if found.missing:
        return f"not in the playbook: {found.missing} (a model or a person can propose)"
    return f"{', '.join(found.families)}: {' -> '.join(found.kernels)}"


def import_kernel(arguments: argparse.Namespace) -> int:
    problem = library.load(arguments.problem)
    made = plain_cu.import_kernel(
        decode(read_kernel(arguments.file)), arguments.file.name, problem, function=arguments.function
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
