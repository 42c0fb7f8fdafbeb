"""Where the tests find the clone and their data."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
KERNELS = DATA / "kernels"
"""Right kernels with their references, and `wrong/`: the corpus that both executors run."""
