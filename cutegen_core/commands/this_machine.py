"""Serve the workbench, and check this machine."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from cutegen_core.doctor.report import measure, run_checks
from cutegen_core.machine.package import PACKAGE
from cutegen_core.printing import print_json
from cutegen_core.records import as_json
from cutegen_core.records.errors import UsageError


def serve(arguments: argparse.Namespace) -> int:
    script = _app()
    options = [f"--server.port={arguments.port}", f"--server.headless={str(arguments.no_browser).lower()}"]
    return subprocess.call([sys.executable, "-m", "streamlit", "run", str(script), *options], cwd=script.parent)


def _app() -> Path:
    """Return `app.py` as the wheel installed it (`setup.py` packs it), or the clone's. Its folder has the settings of
    the server, `.streamlit`, too."""
    places = (
        PACKAGE / "web" / "app.py",
        PACKAGE.parent / "app.py",
    )  # another package may install an `app.py` beside us
    script = next((place for place in places if place.exists()), None)
    if script is None:
        raise UsageError(f"there is no app.py in {places[0].parent} or {places[1].parent}: install the workbench again")
    return script


def show_doctor(arguments: argparse.Namespace) -> int:
    if arguments.measure:
        print(measure(lambda line: print(line, file=sys.stderr)), file=sys.stderr)
    findings = run_checks()
    if arguments.json:
        print_json([as_json.to_plain(finding) for finding in findings])
    for finding in () if arguments.json else findings:
        print(f"{finding.state:8} {finding.name:24} {finding.detail}")
        if finding.fix:
            print(f"{'':33} fix: {finding.fix}")
    return 0
