"""Builds the wheel: `pyproject.toml` says all else, this adds the pages.

In a clone `app.py`, `pages/` and `assets/` lie beside `cutegen_core`, where Streamlit and a reader look for them. In a
wheel they lie in cutegen_core/web, so that an installation adds one name to its environment. `cutegen app` knows
both places.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
WEB = (
    "app.py", ".streamlit/config.toml", "pages/**/*.py", "pages/**/*.css", "pages/**/*.js",
    "assets/icon.png", "assets/recordings/*", "assets/recording-pictures/*", "assets/editor/bundle.js",
    "assets/editor/LICENSES.txt",
)  # fmt: skip


class BuildWithPages(build_py):
    """Copies what is served into the package that is built; an editable installation serves the clone itself."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)  # files of an earlier build would be packed, too
        super().run()
        for pattern in WEB:
            for source in sorted(ROOT.glob(pattern)):
                target = Path(self.build_lib, "cutegen_core", "web", source.relative_to(ROOT))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithPages})
