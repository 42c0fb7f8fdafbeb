"""Add the commands about this machine to the command line: app, doctor."""

from __future__ import annotations

from cutegen_core.commands import this_machine
from cutegen_core.commands.arguments import Subcommands, add_command, whole

_port = whole(1, 65535)


def add(subcommands: Subcommands) -> None:
    """Add them."""
    title = "serve the workbench and open a browser"
    app = subcommands.add_parser("app", help=title, description=title)
    app.set_defaults(command=this_machine.serve)
    app.add_argument("--port", type=_port, default=8501, help="port to serve on (default: %(default)s)")
    app.add_argument("--no-browser", action="store_true", help="open no browser")
    doctor = add_command(
        subcommands, "doctor", this_machine.show_doctor, "check this machine and show how to fix what is missing"
    )
    doctor.add_argument(
        "--measure", action="store_true", help="first measure the GPU's peaks and test the profiler (15 s)"
    )
