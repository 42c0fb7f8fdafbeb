"""Five hundred hostile trials in a row on the emulator, and what they leave behind.

python -m benchmarks.judge.hostile_trials [ROUNDS]
"""

from __future__ import annotations

import sys

from benchmarks.conditions import write
from tests.adversarial.endurance import endure, faults


def main() -> None:
    endured = endure(rounds=int(sys.argv[1]) if len(sys.argv) > 1 else 50)
    found = faults(endured, allowed_growth_mb=25.0)
    print(endured)
    write("hostile_trials", endured.plain() | {"faults": found})
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
