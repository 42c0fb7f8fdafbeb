"""Run Streamlit in a fork of a process that has imported what every server imports: two of its three seconds of a core.

`serving` has such forks made by a fork server (`cutegen_core.machine.fork_server`), which imports this module once. The
application's pages, its settings and its environment are read by each server for itself, as in a new process.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")  # a fork needs a process of one thread

import pandas  # noqa: F401
import plotly.graph_objects  # noqa: F401
from streamlit.web import cli

import cutegen_core.engine
import cutegen_core.share.exports
import cutegen_core.views  # noqa: F401


def main() -> None:
    """Be `python -m streamlit ARGUMENTS` in the environment that is the first argument."""
    environment, *arguments = sys.argv[1:]
    os.environ.clear()
    os.environ.update(json.loads(environment))
    sys.argv = ["streamlit", *arguments]
    cli.main(prog_name="streamlit")
