"""Find the regions of a kernel file that no proposer may change."""

from __future__ import annotations

import re

_LOCK = re.compile(
    r"^[ \t]*//[ \t]*cutegen: lock\b[^\n]*\n(.*?)(?:^[ \t]*//[ \t]*cutegen: unlock\b|\Z)", re.MULTILINE | re.DOTALL
)


def locked_regions(source: str) -> tuple[str, ...]:
    """Return the texts between `// cutegen: lock` and `// cutegen: unlock` (or the end): no model may change them."""
    return tuple(match[1] for match in _LOCK.finditer(source.replace("\r\n", "\n")))
