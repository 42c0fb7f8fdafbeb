"""Add the commands that show, import and export a session to the command line."""

from __future__ import annotations

from pathlib import Path

from cutegen_core.commands import sessions
from cutegen_core.commands.arguments import Subcommands, add_command
from cutegen_core.share.exports import FORMATS


def add(subcommands: Subcommands) -> None:
    """Add them."""
    importing = add_command(
        subcommands, "import", sessions.import_, "import a recording, CuTeGen nodes or a KernelBench run, read-only"
    )
    importing.add_argument("path", type=Path, help="file or folder to import")
    show = add_command(subcommands, "show", sessions.show, "show one session step by step")
    show.add_argument("session", help="session id, or its first characters")
    exporting = add_command(
        subcommands, "export", sessions.export_session, "write a session's kernel or trajectory to a file"
    )
    exporting.add_argument("session", help="session id, or its first characters")
    formats = "; ".join(f"{found.key}: {found.title}" for found in FORMATS.values())
    exporting.add_argument("--format", choices=tuple(FORMATS), default="cu", help=f"{formats} (default: %(default)s)")
    exporting.add_argument(
        "--original", type=Path, metavar="FILE", help="format library: the file that the existing kernel came from"
    )
    exporting.add_argument("-o", "--output", type=Path, required=True, metavar="PATH", help="file to write")
