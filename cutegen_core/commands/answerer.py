"""Read who answers a session's prompts from the command line."""

from __future__ import annotations

import argparse

from cutegen_core.propose.registry import ANSWERERS
from cutegen_core.records.event import AnsweredBy


def add_answerer(parser: argparse.ArgumentParser) -> None:
    """Add the option that says who writes the kernels."""
    parser.add_argument(
        "--proposer", type=answerer, default=AnsweredBy.PLAYBOOK, metavar="WHO",
        help=f"who writes the kernels: {', '.join(ANSWERERS)} (default: %(default)s)",
    )  # fmt: skip


def answerer(text: str) -> AnsweredBy:
    """Return who answers; "manual" is the older name of a person."""
    name = "person" if text == "manual" else text
    if name not in ANSWERERS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(ANSWERERS)}")
    return AnsweredBy(name)
