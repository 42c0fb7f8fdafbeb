"""Add `cutegen gnn` and its options to the command line; every setting of a run has one (`records.gnn_fields`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutegen_core.commands import gnn
from cutegen_core.records.gnn import RunSettings, Task
from cutegen_core.records.gnn_fields import FIELDS, SettingField

_Commands = Any
"""What `add_subparsers` returns; argparse has no public name for it."""

_TASKS = {
    Task.TRAIN: "train a graph neural network on sampled batches, here, and print its result",
    Task.INFER: "run a trained model over the test nodes, from its checkpoint",
    Task.BENCH: "time epochs with every aggregation, in both modes, and what bounds a kernel's gain",
}

_METAVARS = {
    "fanouts": "N,N,...", "inference_fanouts": "N,N,...", "checkpoint": "FOLDER", "graph.source": "NAME_OR_PATH",
    "aggregate": "NAME", "device": "DEVICE",
}  # fmt: skip


def add(commands: _Commands) -> None:
    """Add the command with its subcommands."""
    title = "train graph neural networks on sampled batches, and plug kernels in"
    parser = commands.add_parser("gnn", help=title, description=title)
    inner = parser.add_subparsers(required=True, metavar="COMMAND")
    for task, words in _TASKS.items():
        run = _command(inner, str(task), gnn.run, words)
        run.set_defaults(task=task)
        _add_settings(run)
    converting = _command(
        inner, "convert", gnn.convert, "convert a graph on disk once, to an .npz file or a mapped folder"
    )
    converting.add_argument("path", type=Path, help="edge list (CSV, Parquet), .npz, or folder of OGB (docs/gnn.md)")
    converting.add_argument(
        "-o", "--output", type=Path, required=True, metavar="PATH", help="new .npz file, or new folder"
    )
    converting.add_argument("--undirected", action="store_true", help="each edge also counts in the other direction")
    importing = _command(inner, "import", gnn.import_, "open a recorded run on the page, read-only")
    importing.add_argument("path", type=Path, help="a file that --save or the page's Download wrote")
    exporting = _command(inner, "export", gnn.export, "write a finished run of this workspace to a file")
    exporting.add_argument("job", help="id of the run, or its first characters; the page's address has it")
    exporting.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write")


def _command(
    inner: _Commands, name: str, run: Callable[[argparse.Namespace], int], words: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = inner.add_parser(name, help=words, description=words)
    parser.set_defaults(command=run)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    defaults = RunSettings()
    for field in FIELDS:
        if field.name == "task":
            continue
        shown = field.text(defaults) or "none"
        choices = f" One of {', '.join(field.choices)}." if field.choices else ""
        parser.add_argument(
            field.option, dest=field.name, type=_reader(field), metavar=_metavar(field),
            help=f"{field.help}{choices} (default: {shown})".replace("%", "%%"),
        )  # fmt: skip
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the whole run, to open on the page")


def _reader(field: SettingField) -> Callable[[str], str]:
    """Return a check of the text, which is kept: the settings are read together."""

    def read(text: str) -> str:
        try:
            field.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return text

    return read


def _metavar(field: SettingField) -> str:
    return "WORD" if field.choices else _METAVARS.get(field.name, "N")
