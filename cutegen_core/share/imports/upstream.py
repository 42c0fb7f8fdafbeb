"""Import node files of upstream CuTeGen: `src`, `prev_src`, `history`, `error_type`, `time` (ms), `depth`, and more.

1. A file holds one node or a list of them; a folder is searched for .json files in all its depths.
2. Nodes of one problem (the same `ref`, else the same folder) make one session, in the order in which they were made.
3. A node's `history` holds the versions that failed before it: each is a step, a repair of the one before.
A field that is missing or of the wrong kind leaves its step without that fact and says so in the step's note.
"""

from __future__ import annotations

import ast
import calendar
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutegen_core.kernel.kernel_file import find_global_functions
from cutegen_core.machine.python_text import parse_module
from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Status
from cutegen_core.share.imports.building import Imported, ImportedStep, build_session
from cutegen_core.share.imports.reading import LONGEST_MS
from cutegen_core.share.imports.upstream_nodes import OWN_FIELDS, UpstreamNode, in_order, read
from cutegen_core.trajectory.store import Store

_VERDICTS: Mapping[str, Status] = {
    "PASS": Status.PASSED,
    "COMPILE": Status.COMPILE_ERROR,
    "CORRECT": Status.INCORRECT_NUMERICAL,
    "HACKED": Status.REJECTED,
}
"""Their words; NONE means that it was never evaluated."""

_WORDS: Mapping[Status, str] = {
    Status.COMPILE_ERROR: "did not compile",
    Status.INCORRECT_NUMERICAL: "wrong results",
    Status.REJECTED: "flagged as a cheat by upstream's own check",
}
_SOURCES = ("src", "prev_src", "ref", "history", "last_passed_src", "best_passed_src")
_MOST_MESSAGE = 2000
_MOST_NAME = 200


def import_nodes(store: Store, path: Path) -> Imported:
    """Import one session for each problem among the nodes; UsageError if there is no node at all."""
    nodes, passed_over = read(path)
    if not any(node.fields for node in nodes):
        looked_for = "objects with " + ", ".join(OWN_FIELDS)
        reasons = "; ".join(f"{n.place}: {n.broken}" for n in nodes[:3])
        raise UsageError(f"{path} holds no CuTeGen node ({looked_for}){': ' + reasons if reasons else ''}")
    groups: dict[str, list[UpstreamNode]] = {}
    by_folder = {node.folder: node.group for node in nodes if node.fields}
    for node in nodes:
        groups.setdefault(node.group if node.fields else by_folder.get(node.folder, node.group), []).append(node)
    sessions, steps, odd = [], 0, 0
    for members in groups.values():
        made = [step for node in in_order(members) for step in _steps(node)]
        sessions.append(_session(store, path, members, made))
        steps += len(made)
        odd += sum(bool(step.note) for step in made)
    return Imported(sessions[0], steps, _note(nodes, steps, odd, len(sessions), passed_over), tuple(sessions))


def _note(nodes: Sequence[UpstreamNode], steps: int, odd: int, sessions: int, passed_over: int) -> str:
    broken = [n for n in nodes if n.broken]
    parts = [f"{len(nodes) - len(broken)} nodes in {steps} steps ({_count(sessions, 'session')})"]
    if odd:
        parts.append(f"{_count(odd, 'step')} with something missing or malformed, named at the step")
    if broken:
        listed = "; ".join(f"{n.place}: {n.broken}" for n in broken[:5])
        parts.append(f"{_count(len(broken), 'file')} that cannot be read, kept as text ({listed})")
    if passed_over:
        parts.append(f"{_count(passed_over, 'other .json entry', 'other .json entries')} passed over: no node fields")
    return "; ".join(parts)


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number} {word if number == 1 else words or word + 's'}"


# ---- one node


def _steps(node: UpstreamNode) -> Iterator[ImportedStep]:
    """Yield the node's failed versions, then the node itself."""
    if node.broken:
        yield ImportedStep("", node.place, None, record=node.text, note=f"{node.place}: {node.broken}")
        return
    fields = node.fields
    notes: list[str] = []
    parent = _text(fields, "prev_src", notes, needed=False)
    history = fields.get("history", [])
    if not isinstance(history, list):
        notes.append(f"history is a {type(history).__name__}, not a list")
        history = []
    for number, entry in enumerate(history, 1):
        step = _correction(node, entry, number, parent)
        yield step
        parent = step.source or parent
    yield _final(node, parent, notes, repair=bool(history))


def _final(node: UpstreamNode, parent: str, notes: list[str], *, repair: bool) -> ImportedStep:
    fields = node.fields
    source = _text(fields, "src", notes)
    status = _verdict(fields.get("error_type"), notes)
    latency = _latency(fields.get("time"), notes)
    if node.depth is None:
        notes.append("depth is missing" if "depth" not in fields else f"depth is {fields['depth']!r:.40}, not a number")
    metadata = fields.get("metadata")
    said = (
        metadata.get("compile" if status is Status.COMPILE_ERROR else "correct") if isinstance(metadata, dict) else ""
    )
    return ImportedStep(
        source=source,
        idea=_idea(node, source),
        status=status,
        parent=parent,
        message=_message(status, said),
        latency_ms=latency if status is Status.PASSED else None,
        record=_record(fields),
        at=_time(node.stamp),
        repair=repair,
        note="; ".join(notes),
    )


def _correction(node: UpstreamNode, entry: object, number: int, parent: str) -> ImportedStep:
    idea = f"{_depth_words(node)}, version {number} before its repair"
    if not isinstance(entry, dict):
        text = json.dumps(entry)
        return ImportedStep(
            "", idea, None, record=text, repair=number > 1, note=f"history holds a {type(entry).__name__}"
        )
    notes: list[str] = []
    source = _text(entry, "src", notes)
    status = _verdict(entry.get("error_type"), notes)
    return ImportedStep(
        source=source,
        idea=idea,
        status=status,
        parent=parent,
        message=_message(status, entry.get("msg")),
        record=_record(entry),
        at=_time(node.stamp),
        repair=number > 1,
        note="; ".join(notes),
    )


def _text(fields: Mapping[str, Any], name: str, notes: list[str], *, needed: bool = True) -> str:
    value = fields.get(name)
    if isinstance(value, str) and (value or not needed):
        return value
    if needed or value is not None:
        notes.append(f"{name} is {'missing' if name not in fields else 'empty' if value in ('', None) else 'no text'}")
    return ""


def _verdict(word: object, notes: list[str]) -> Status | None:
    if word is None:
        notes.append("error_type is missing: no verdict")
    elif str(word) == "NONE":
        notes.append("never evaluated upstream")
    elif str(word) not in _VERDICTS:
        notes.append(f"error_type {word!r:.60} is not known: no verdict")
    return _VERDICTS.get(str(word))


def _latency(times: object, notes: list[str]) -> float | None:
    """Return the mean GPU time in ms."""
    mean = times.get("mean") if isinstance(times, dict) else times
    if isinstance(mean, int | float) and not isinstance(mean, bool) and 0 < mean <= LONGEST_MS:
        return float(mean)
    if times not in (None, {}):
        notes.append("time holds no mean")
    elif times is None:
        notes.append("time is missing")
    return None


def _message(status: Status | None, said: object) -> str:
    if status is None or status is Status.PASSED:
        return ""
    text = said.strip()[:_MOST_MESSAGE] if isinstance(said, str) else ""
    return text or _WORDS[status]


def _idea(node: UpstreamNode, source: str) -> str:
    """Return what upstream says of the step: its depth, and the kernel's first name."""
    name = next(iter(find_global_functions(source)), "")[:_MOST_NAME]
    return f"{_depth_words(node)}: {name}" if name else _depth_words(node)


def _depth_words(node: UpstreamNode) -> str:
    if node.depth is None:
        return f"node {node.place}"
    return "seed" if node.depth == 0 else f"optimisation {node.depth}"


def _record(fields: Mapping[str, Any]) -> str:
    """Return the rest of the record: everything but the sources that steps hold already."""
    kept = {name: value for name, value in fields.items() if name not in _SOURCES}
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = {name: value for name, value in kept["metadata"].items() if name not in _SOURCES}
    odd = {name: fields[name] for name in _SOURCES if name in fields and not isinstance(fields[name], str | list)}
    return json.dumps(kept | odd, indent=2, ensure_ascii=False)


def _time(stamp: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(stamp, "%Y%m%d-%H%M%S")))
    except (ValueError, OverflowError):
        return 0.0


# ---- the session


def _session(store: Store, path: Path, nodes: Sequence[UpstreamNode], steps: Sequence[ImportedStep]) -> str:
    first = next((n for n in nodes if n.fields), nodes[0])
    ref = first.fields.get("ref")
    name = Path(_problem_name(first, path)).stem
    origin = f"imported from {show_hidden(path.name)} (upstream CuTeGen)"
    problem = Problem(name, name.replace("_", " "), ref if isinstance(ref, str) else "", origin, ())
    baseline = _latency(first.fields.get("ref_time") or {}, [])
    title = f"{problem.title}, upstream CuTeGen" + (f", reference {baseline:.4g} ms" if baseline else "")
    return build_session(store, problem, origin, title, [replace(s, source=_safe(s.source)) for s in steps])


def _safe(text: str) -> str:
    """Return the text without halves of surrogate pairs, which JSON can hold and no file can."""
    return text.encode("utf-8", "replace").decode()


def _problem_name(node: UpstreamNode, path: Path) -> str:
    folder = str(node.fields.get("save_folder_path", "")).rstrip("/").rsplit("/", 1)[-1]
    return folder or _class_doc(node) or node.folder or path.stem


def _class_doc(node: UpstreamNode) -> str:
    """Return a name for a problem that only its source describes; "" without a source."""
    ref = node.fields.get("ref")
    if not isinstance(ref, str):
        return ""
    try:
        tree = parse_module(ref)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef)), None)
    text = (ast.get_docstring(model) or "") if model else ""
    return re.sub(r"\W+", "_", text.strip().splitlines()[0])[:60].strip("_") if text.strip() else ""
