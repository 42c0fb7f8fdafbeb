"""Find and read node files of upstream CuTeGen: one node, a list of them, or a folder at any depth."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutegen_core.share.imports.reading import read_whole

OWN_FIELDS = ("src", "prev_src", "history", "error_type", "time", "depth")
"""What makes an object a node: any one of these."""

_STAMP = re.compile(r"(\d{8}-\d{6})")


@dataclass(frozen=True)
class UpstreamNode:
    """A node of a file; `broken` says why a whole file could not be read, `text` is then its content."""

    place: str
    folder: str
    fields: Mapping[str, Any]
    broken: str = ""
    text: str = ""

    @property
    def group(self) -> str:
        ref = self.fields.get("ref")
        return ref if isinstance(ref, str) and ref.strip() else f"\0{self.folder}"

    @property
    def depth(self) -> int | None:
        depth = self.fields.get("depth")
        return depth if isinstance(depth, int) and not isinstance(depth, bool) else None

    @property
    def stamp(self) -> str:
        """Return when the node was made, by its uuid or file name, "" if neither says so."""
        found = _STAMP.search(str(self.fields.get("uuid", ""))) or _STAMP.search(self.place)
        return found[1] if found else ""


def read(path: Path) -> tuple[list[UpstreamNode], int]:
    """Return every node and every broken file, and how many other entries were skipped."""
    files = sorted(path.rglob("*.json"), key=_natural) if path.is_dir() else [path]
    nodes: list[UpstreamNode] = []
    passed_over = 0
    for file in files:
        for node in _nodes_of(file, path):
            if node.broken or any(field in node.fields for field in OWN_FIELDS):
                nodes.append(node)
            else:
                passed_over += 1
    return nodes, passed_over


def _nodes_of(file: Path, root: Path) -> Iterator[UpstreamNode]:
    place = str(file.relative_to(root)) if root.is_dir() else file.name
    folder = file.parent.name
    text = read_whole(file).decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield UpstreamNode(place, folder, {}, f"not JSON ({error})", text)
        return
    entries = value if isinstance(value, list) else [value]
    for number, entry in enumerate(entries, 1):
        where = f"{place} #{number}" if isinstance(value, list) else place
        if isinstance(entry, dict):
            yield UpstreamNode(where, folder, entry)
        else:
            yield UpstreamNode(where, folder, {}, f"{type(entry).__name__}, not an object", json.dumps(entry))


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", str(path))]


def in_order(nodes: Sequence[UpstreamNode]) -> list[UpstreamNode]:
    """Sort by time if every node has one, else by depth; a node with neither keeps its place."""
    if all(node.stamp for node in nodes):
        return sorted(nodes, key=lambda node: (node.stamp, node.depth or 0))
    return sorted(nodes, key=lambda node: math.inf if node.depth is None else node.depth)
