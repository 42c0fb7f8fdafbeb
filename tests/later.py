"""Import a module when a test first uses it: torch, streamlit and openai would take seconds to collect any test."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module; any use of one of its names imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
