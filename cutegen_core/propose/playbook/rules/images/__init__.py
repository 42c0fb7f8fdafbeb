"""Rules of images: convolutions and poolings, patches, and what is read between the elements."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import Rule
from cutegen_core.propose.playbook.rules.images import interpolation, patches, resampling, windows

__all__ = ["RULES"]

RULES: Mapping[str, Rule] = {**interpolation.RULES, **patches.RULES, **resampling.RULES, **windows.RULES}
