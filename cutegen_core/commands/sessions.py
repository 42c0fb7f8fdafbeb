"""Show, import and export sessions."""

from __future__ import annotations

import argparse
import sys

from cutegen_core import views
from cutegen_core.printing import print_json, session_json
from cutegen_core.records.wording import CAREFUL, counted
from cutegen_core.share.exports import FORMATS, export
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.store import Store


def import_(arguments: argparse.Namespace) -> int:
    imported = import_path(Store(), arguments.path)
    if arguments.json:
        print_json(imported._asdict())
    else:
        print(f"session {imported.session}: {counted(imported.steps, 'step')}. {imported.note}")
    return 0


def show(arguments: argparse.Namespace) -> int:
    store = Store()
    session = store.find_session(arguments.session)
    if arguments.json:
        print_json(session_json(store, session))
        return 0
    view = views.session_view(store, session)
    print(f"{view.state.settings.problem_name}: {view.state.status} {view.state.reason}")
    for line in views.paid_lines(view.state):
        print(f"    {line}")
    for suite in view.state.suites:
        print(f"    suite of step {suite.step}, {'trusted' if suite.trusted else 'not trusted'}: {suite.message}")
    for step, own in zip(view.steps, view.state.steps, strict=True):
        mark = "*" if step.is_best else " "
        print(f"{mark}{step.number:3} {step.status or '-':20} {step.outcome or '-':12} {step.idea}")
        if step.message:
            print(f"      {step.message}")
        for warning in views.warnings_of(own):
            print(f"      {CAREFUL}{warning}")
        for row in views.alternatives(view.state, own):
            said = ", ".join(filter(None, (row.status or "no kernel", row.took, row.message)))
            print(f"      {'*' if row.kept else ' '} candidate {row.number}: {row.idea}: {said}")
    return 0


def export_session(arguments: argparse.Namespace) -> int:
    store = Store()
    session = store.find_session(arguments.session)
    if not arguments.json and FORMATS[arguments.format].compiles:
        print("compiling with nvcc, if installed; this takes a minute or two", file=sys.stderr)
    exported = export(store, session, arguments.format, arguments.output, original=arguments.original)
    if arguments.json:
        facts = {"path": str(exported.path), "checked": exported.checked, "note": exported.note}
        print_json({"session": session, "format": arguments.format, **facts})
    else:
        print(f"{exported.path} ({exported.checked}) {exported.note}")
    return 0
