"""Add the commands about problems and existing kernels to the command line: problems, import-kernel."""

from __future__ import annotations

from pathlib import Path

from cutegen_core.commands import kernels
from cutegen_core.commands.arguments import Subcommands, add_command


def add(subcommands: Subcommands) -> None:
    """Add them."""
    listing = add_command(
        subcommands, "problems", kernels.list_problems, "list the built-in and saved problems, or those of a path"
    )
    listing.add_argument("--path", metavar="PATH", help="list a KernelBench file or a folder of them instead")
    listing.add_argument(
        "--lint", nargs="?", const="", metavar="NAME_OR_PATH",
        help="look for weaknesses in them, or in this one (exit code 1: an error was found)",
    )  # fmt: skip
    listing.add_argument(
        "--playbook", action="store_true",
        help="say for each which of the playbook's families recognises it, or why none does",
    )  # fmt: skip
    listing.add_argument(
        "--run-existing", action="store_true", help="with --lint, also test their existing kernels on the emulator"
    )
    kernel = add_command(
        subcommands, "import-kernel", kernels.import_kernel, "make a kernel file of a plain .cu with host code"
    )
    kernel.add_argument("file", type=Path, help="file with __global__ functions and the host code that launches them")
    kernel.add_argument(
        "--problem", required=True, metavar="NAME_OR_PATH", help="what it solves: its arguments are matched to that"
    )
    kernel.add_argument(
        "--function", default="", metavar="NAME", help="host function to follow, where several launch kernels"
    )
    kernel.add_argument(
        "-o", "--out", dest="output", type=Path, metavar="FILE", help="file to write (default: standard output)"
    )
