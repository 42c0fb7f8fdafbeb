"""Four of the GPU measurements, in order, within a budget: `python -m benchmarks.gpu_all [PART ...] --budget-s 560`.

They are the emulator cross-check, edit to verdict, the wgmma product and the recorded session. The other scripts that
need a GPU (those of `timing` and `kernels`, `judge.gpu_recovery`, `tests.adversarial.run`) are run by themselves. Each
part is a command of its own with its own limit; one that does not fit into what is left is not begun. Results stay
where the parts put them and are copied to --out, so that a machine without a disk of its own can hand them back.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"
RECORDINGS = Path(__file__).parent.parent / "assets" / "recordings"
CROSSCHECK = Path(".gpu") / "crosscheck" / "gpu.xz"


class Part(NamedTuple):
    """A command, the seconds it needs at most, and what it leaves behind."""

    command: tuple[str, ...]
    seconds: int
    leaves: tuple[Path, ...]


PARTS = {
    "crosscheck": Part(
        ("-m", "benchmarks.crosscheck", "gpu", "--limit-s", "260", "--results", str(CROSSCHECK)), 320, (CROSSCHECK,)
    ),
    "edit": Part(
        ("-m", "benchmarks.toolchain.gpu_edit_to_verdict", "--repeats", "4", "--limit-s", "180"),
        300,
        (RESULTS / "gpu_edit_to_verdict.json",),
    ),
    "wgmma": Part(
        ("-m", "benchmarks.kernels.wgmma", "run", ".gpu/wgmma", "--limit-s", "220"), 250, (RESULTS / "gpu_wgmma.json",)
    ),
    "session": Part(("-m", "benchmarks.recording.gpu_session"), 320, (RECORDINGS / "softmax-h200.jsonl.gz",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}; all unless named")
    parser.add_argument("--budget-s", type=float, default=560.0)
    parser.add_argument("--out", type=Path, help="folder for copies of what the parts leave")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    deadline = time.monotonic() + chosen.budget_s
    rows = [_run(name, PARTS[name], deadline, chosen.out) for name in chosen.parts]
    print("\npart         outcome      seconds")
    for name, outcome, seconds in rows:
        print(f"{name:12} {outcome:12} {seconds:7.1f}")
    return int(any(outcome != "done" for _, outcome, _ in rows))


def _run(name: str, part: Part, deadline: float, out: Path | None) -> tuple[str, str, float]:
    left = deadline - time.monotonic()
    if left < min(60.0, part.seconds):
        return name, "no time left", 0.0
    print(f"\n== {name}", flush=True)
    begun = time.monotonic()
    try:
        done = subprocess.run([sys.executable, *part.command], timeout=min(left, part.seconds), check=False)
        outcome = "done" if done.returncode == 0 else f"code {done.returncode}"
    except subprocess.TimeoutExpired:
        outcome = "out of time"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for path in part.leaves:
            if path.exists() and path.stat().st_mtime > time.time() - (time.monotonic() - begun) - 1:
                shutil.copy(path, out / path.name)
    return name, outcome, time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
