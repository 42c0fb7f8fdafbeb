"""Carry out the commands of the command line: each returns its exit code, and with `--json` prints one document."""

from cutegen_core.commands.kernels import check, import_kernel, list_problems
from cutegen_core.commands.refining import replay, run, twin
from cutegen_core.commands.sessions import export_session, import_, list_sessions, show
from cutegen_core.commands.this_machine import serve, show_doctor

__all__ = [
    "check",
    "export_session",
    "import_",
    "import_kernel",
    "list_problems",
    "list_sessions",
    "replay",
    "run",
    "serve",
    "show",
    "show_doctor",
    "twin",
]
