"""Add commands, and read the arguments that several of them take; imports nothing that takes time."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from cutegen_core.records.trial import EXECUTORS, ExecutorKind

Command = Callable[[argparse.Namespace], int]
Subcommands = Any
"""What `add_subparsers` returns; argparse has no public name for it."""

_LONGEST_NUMBER = 20
_LARGEST_AMOUNT = 1e12


def add_command(subcommands: Subcommands, name: str, run: Command, help_text: str) -> argparse.ArgumentParser:
    """Add a command that can print one JSON document."""
    added: argparse.ArgumentParser = subcommands.add_parser(name, help=help_text, description=help_text)
    added.set_defaults(command=run)
    added.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return added


def add_problem(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--problem", required=True, metavar="NAME_OR_PATH", help="built-in or saved problem, or a KernelBench file"
    )
    add_executor(parser)
    add_arch(parser, "the GPU's, or sm_90a without one")


def add_executor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--executor", type=_executor, metavar=f"{{{','.join(EXECUTORS)}}}",
        help="gpu, or cpu for the emulator (default: the GPU if there is one)",
    )  # fmt: skip


def add_arch(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--arch", metavar="ARCH", help=f"compile target such as sm_90a (default: {default})")


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return the reader of a whole number in this range."""

    def read(text: str) -> int:
        digits = text.strip()
        if (
            len(digits) > _LONGEST_NUMBER
            or not (digits.isascii() and digits.isdecimal())
            or not low <= int(digits) <= high
        ):
            raise argparse.ArgumentTypeError(f"{text[:_LONGEST_NUMBER]!r} is no whole number from {low} to {high}")
        return int(digits)

    return read


def amount(text: str) -> float:
    """Return a number above 0 that a person can mean: of money, minutes or tokens."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LARGEST_AMOUNT:
        raise argparse.ArgumentTypeError(f"{text[:_LONGEST_NUMBER]!r} is no number above 0")
    return value


seed = whole(0, 2**62 - 1)


def _executor(text: str) -> ExecutorKind:
    if text not in EXECUTORS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(EXECUTORS)}")
    return ExecutorKind(text)
