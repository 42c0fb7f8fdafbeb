"""Keep the state of a trial in a file that is replaced atomically.

The file is a magic word, the SHA-256 of what follows, and torch's archive of plain tensors and texts (read without
pickle's objects). So a damaged file is recognised before it is read, and a run that is killed at any moment leaves
either the old checkpoint or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from cutegen_core.records import as_json
from cutegen_core.records.errors import MachineError, StoreError, UsageError
from cutegen_core.records.gnn import EpochReport, GraphSettings, RunSettings, Schedule

_MAGIC = b"CUTEGEN GNN 1\n"
WAIT_S = 5.0
"""A run that was killed may still be about to end."""
_ASK_AGAIN_S = 0.05
_SHAPE = ("graph", "model", "hidden")
_CURVE = (
    *_SHAPE,
    "fanouts",
    "layered",
    "batch_size",
    "learning_rate",
    "schedule",
    "dropout",
    "precision",
    "aggregate",
    "gradient",
    "seed",
)
"""What a loss curve depends on, besides the trial."""


@dataclass(frozen=True)
class Checkpoint:
    """A trial as it stood.

    Attributes:
        settings: of the run that wrote it.
        epoch: epochs that are complete.
        batch: batches of the next epoch that are done.
        loss_sum: of these batches, over their nodes.
        reports: of the complete epochs.
        model, optimizer: their `state_dict`.
    """

    settings: RunSettings
    trial: int
    epoch: int
    batch: int
    loss_sum: float
    reports: tuple[EpochReport, ...]
    model: dict[str, Any]
    optimizer: dict[str, Any]


def checkpoint_path(folder: str, trial: int) -> Path:
    """Return the file of a trial, counted from 1."""
    return Path(folder) / f"trial-{trial}.checkpoint"


@contextlib.contextmanager
def hold_folder(folder: str) -> Iterator[None]:
    """Make the folder, and keep other runs from writing it while the block runs.

    Raises:
        MachineError: it cannot be made or written.
        UsageError: another run writes it.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise MachineError(f"the folder {folder} for checkpoints cannot be used: {error.strerror}.") from error
    try:
        _claim(fd, folder)
        yield
    finally:
        os.close(fd)


def _claim(fd: int, folder: str) -> None:
    if not os.access(folder, os.W_OK):
        raise MachineError(f"the folder {folder} for checkpoints cannot be written. Choose another one.")
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"another run writes checkpoints to {folder}. Wait for it, or choose another folder."
                raise UsageError(message) from None
            time.sleep(_ASK_AGAIN_S)


def write_checkpoint(checkpoint: Checkpoint) -> None:
    """Replace the trial's file; when this returns, it is on disk.

    Raises:
        MachineError: the folder cannot be written.
    """
    path = checkpoint_path(checkpoint.settings.checkpoint, checkpoint.trial)
    payload = _archive(checkpoint)
    new = path.with_suffix(".new")
    try:
        with open(new, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise MachineError(f"the checkpoint {path} cannot be written: {error.strerror}.") from error


def read_checkpoint(folder: str, trial: int) -> Checkpoint | None:
    """Return the checkpoint of a trial, or None where there is none.

    Raises:
        UsageError: the file is damaged, or of another version.
    """
    path = checkpoint_path(folder, trial)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"the checkpoint {path} cannot be read: {error.strerror}.") from error
    start = len(_MAGIC) + hashlib.sha256().digest_size
    payload = content[start:]
    if content[:start] != _MAGIC + hashlib.sha256(payload).digest():
        raise UsageError(f"the checkpoint {path} is damaged. Delete it to train from the beginning.")
    try:
        return _read_archive(payload)
    except (StoreError, KeyError) as error:
        raise UsageError(f"the checkpoint {path} is of another version ({error}). Delete it to train anew.") from error


def check_same_curve(checkpoint: Checkpoint, settings: RunSettings) -> None:
    """Refuse to continue another run's curve.

    Raises:
        UsageError: a setting that shapes the loss differs; the text names it.
    """
    names = (*_CURVE, "epochs") if settings.schedule is Schedule.COSINE else _CURVE
    _check_same(checkpoint, settings, names, "Use these settings, another folder, or delete it to train anew.")


def check_same_model(checkpoint: Checkpoint, settings: RunSettings) -> None:
    """Refuse to infer with the weights of another model.

    Raises:
        UsageError: a setting that shapes the model differs; the text names it.
    """
    _check_same(checkpoint, settings, _SHAPE, "Infer with the settings of the training.")
    trained, asked = len(checkpoint.settings.fanouts), len(settings.inference_fanouts)
    if trained != asked:
        raise UsageError(f"the checkpoint's model has {trained} layers, inference_fanouts {asked} hops.")


def _check_same(checkpoint: Checkpoint, settings: RunSettings, names: tuple[str, ...], advice: str) -> None:
    path = checkpoint_path(settings.checkpoint, checkpoint.trial)
    for name in names:
        was, now = getattr(checkpoint.settings, name), getattr(settings, name)
        if was != now:
            raise UsageError(f"the checkpoint {path} was written with {name} {_say(was, now)}. {advice}")


def _say(was: object, now: object) -> str:
    if isinstance(was, GraphSettings):
        names = (field.name for field in fields(was))
        return "of " + ", ".join(_differ(name, was, now) for name in names if getattr(was, name) != getattr(now, name))
    return f"{_plain(was)}, not {_plain(now)}"


def _differ(name: str, was: object, now: object) -> str:
    return f"{name} {getattr(was, name)}, not {getattr(now, name)}"


def _plain(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _archive(checkpoint: Checkpoint) -> bytes:
    content = {field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}
    content["settings"] = as_json.dump(checkpoint.settings)
    content["reports"] = [as_json.dump(report) for report in checkpoint.reports]
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _read_archive(payload: bytes) -> Checkpoint:
    found = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    reports = tuple(as_json.load(EpochReport, text) for text in found.pop("reports"))
    return Checkpoint(settings=as_json.load(RunSettings, found.pop("settings")), reports=reports, **found)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
