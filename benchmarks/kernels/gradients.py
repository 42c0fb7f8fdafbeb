"""The playbook on the set `gradients` by `cutegen bench`: backward passes, in turns with eager and torch.compile.

    python -m benchmarks.kernels.gradients

Each problem has a whole session: every kernel takes all stages, and the best is timed by the workbench's own BENCHMARK,
at 8192 x 4096. `results/gradients_h200.json` has the lines of the bench and its figures. The references are functions
that `torch.func.vjp` and `torch.func.grad` make, which eager runs forward and backward, and torch.compile fuses.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import conditions
from cutegen_core.machine.device import choose_device

_MOST_STEPS = 8


def main() -> int:
    command = [sys.executable, "-m", "cutegen_core.cli", "bench", "--set", "gradients", "--json"]
    done = subprocess.run([*command, "--max-steps", str(_MOST_STEPS)], stdout=subprocess.PIPE, text=True, check=False)
    found = json.loads(done.stdout)
    if not found.get("problems"):
        sys.exit(f"the bench failed: {found.get('error')}")
    lines = [
        {key: value for key, value in line.items() if key not in ("session", "path")} for line in found["problems"]
    ]
    for line in lines:
        print(line["problem"], line["outcome"], line["latency_us"], line["share"], line["speedups"])
    result = {"device": choose_device().name, "problems": lines, "figures": found["figures"]}
    conditions.write("gradients_h200", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
