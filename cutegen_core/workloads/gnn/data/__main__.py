"""Convert a graph as a process: `python -m cutegen_core.workloads.gnn.data PATH OUT [--undirected]`.

stdout gets one JSON line: `{"converted": {...}}`, or `{"error": "text for a person"}` and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cutegen_core.records import as_json
from cutegen_core.records.errors import CutegenError
from cutegen_core.workloads.gnn.data.convert import convert


def main() -> int:
    """Convert what the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cutegen_core.workloads.gnn.data", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--undirected", action="store_true")
    given = parser.parse_args()
    try:
        made = convert(given.path, given.out, undirected=given.undirected)
    except CutegenError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    facts = as_json.to_plain(made.facts)
    print(json.dumps({"converted": {"path": str(made.path), "repeated_edges": made.repeated_edges, "graph": facts}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
