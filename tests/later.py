"""Import a module when a test first uses it: torch, streamlit and openai would take seconds to collect any test."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class Later:
    """Stands for a module; any use of one of its names imports it, and a monkeypatched name is set in the module."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pytest asks what each name of a test file is: that is no use
            raise AttributeError(name)
        return getattr(self._module(), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._module(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._module(), name)

    def _module(self) -> ModuleType:
        return importlib.import_module(object.__getattribute__(self, "_name"))
