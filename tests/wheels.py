"""The wheel, built by the hook that pip calls for it, from a copy of the clone: building leaves folders behind."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.places import ROOT

_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
"""Of what `pip wheel` does, the rest asks setuptools three times what it needs: as much again."""


def listed(*folders: str) -> list[str]:
    """Return files of the clone that are, or would be, in git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *folders]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


def built(folder: Path) -> Path:
    """Return the wheel, in `folder`."""
    clone = folder / "clone"
    for name in listed():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, clone / name)
    build = [sys.executable, "-c", _BUILD, str(folder)]
    done = subprocess.run(build, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel
