"""Read how much a step may try, and what ends a session, from the command line."""

from __future__ import annotations

import argparse

from cutegen_core.commands.arguments import amount, whole
from cutegen_core.records.decision import MOST_CANDIDATES, Effort, Ideas

steps, tokens = whole(1, 10**6), whole(1, 10**12)
_width, _percent = whole(1, MOST_CANDIDATES), whole(0, 100)


def add_budgets(parser: argparse.ArgumentParser, default_steps: int | None = 40) -> None:
    """Add the options that limit a session."""
    said = " (default: %(default)s)" if default_steps else ""
    parser.add_argument(
        "--budget-tokens", type=tokens, metavar="N", help="token limit for prompts and replies together"
    )
    parser.add_argument("--max-steps", type=steps, default=default_steps, metavar="N", help=f"step limit{said}")
    parser.add_argument(
        "--budget-money", type=amount, metavar="AMOUNT", help="limit in the currency of the models' prices (Setup)"
    )
    parser.add_argument("--budget-minutes", type=amount, metavar="N", help="limit of the time the session works")


def add_effort(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Effort`, budgets included."""
    add_budgets(parser)
    parser.add_argument(
        "--ideas", type=Ideas, choices=list(Ideas), default=Ideas.ONE,
        help="how many ideas a step of the strategy cutegen may try (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--enough", type=_percent, default=92, metavar="PERCENT",
        help="stop when the best's time reaches this share of its bound; 0 for never (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--width", type=_width, default=1, metavar="N",
        help="candidates of a step; all are tried and the best is kept (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--models", type=_names, default=(), metavar="NAME,NAME",
        help="models from Setup that write a step's candidates in turn; at least one candidate each",
    )  # fmt: skip
    parser.add_argument(
        "--worth-tokens", type=amount, metavar="N",
        help="tokens that 1 %% less time is worth; stop when the next step is expected to take more",
    )  # fmt: skip
    parser.add_argument("--worth-money", type=amount, metavar="AMOUNT", help="the same in money")
    parser.add_argument(
        "--conversation", choices=("on", "off"), default="on",
        help="ask behind the exchange before, where that is cheaper, or show the kernel in every prompt "
        "(default: %(default)s)",
    )  # fmt: skip


def read_effort(arguments: argparse.Namespace) -> Effort:
    """Return what the options of `add_effort` say."""
    return Effort(
        arguments.ideas,
        arguments.enough / 100,
        max(arguments.width, len(arguments.models)),
        arguments.models,
        arguments.budget_money,
        arguments.budget_minutes,
        arguments.worth_tokens,
        arguments.worth_money,
        arguments.conversation == "on",
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    if not 1 <= len(names) <= MOST_CANDIDATES:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of 1 to {MOST_CANDIDATES} names, with commas between")
    return names
