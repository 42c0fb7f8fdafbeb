"""The wheel holds every file the application needs, where `cutegen app` looks for it."""

import re
import zipfile

from tests.wheels import built, listed

LEFT_OUT = re.compile(r"assets/(screenshots/|tour\.webp|editor/(src/|build\.mjs|package|\.gitignore))")
"""Pictures of the documentation, and what the editor's bundle is made from."""


def test_the_wheel_holds_every_file_and_no_other(tmp_path):
    names = set(zipfile.ZipFile(built(tmp_path)).namelist())
    core = set(listed("cutegen_core"))
    web = {name for name in listed("app.py", "pages", "assets", ".streamlit") if not LEFT_OUT.match(name)}
    wanted = core | {f"cutegen_core/web/{name}" for name in web}
    packed = {name for name in names if ".dist-info/" not in name}
    assert (sorted(wanted - packed), sorted(packed - wanted)) == ([], [])
