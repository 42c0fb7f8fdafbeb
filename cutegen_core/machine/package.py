"""Where this package lies, for the processes that are started from it and shut in around it."""

from __future__ import annotations

from pathlib import Path

import cutegen_core

PACKAGE = Path(cutegen_core.__file__).resolve().parent
