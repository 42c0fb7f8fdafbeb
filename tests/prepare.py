"""Build what a fresh clone compiles once, the emulator and the sampler, while the static checks leave a core free.

The processes that run the tests would otherwise begin by waiting for it. With kept builds it takes a second.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests import kept


def main() -> None:
    folder = kept.kept_folder()
    with tempfile.TemporaryDirectory(prefix="cutegen-tests-") as home, kept.linked(folder, Path(home) / "cache"):
        os.environ["CUTEGEN_HOME"] = home
        from cutegen_core.execute.executors.cpu import CpuExecutor
        from cutegen_core.workloads.gnn.native import build

        CpuExecutor().prepare(lambda text: print(text, flush=True))
        build.library()


if __name__ == "__main__":
    main()
