"""uv looks for packages where pip would."""

import itertools
import subprocess
import sys
from pathlib import Path

from tests import install

LISTED = """\
:env:.disable-pip-version-check='1'
:env:.find-links='/wheels /more'
global.cert='/etc/ca.crt'
global.extra-index-url='file:///a/simple file:///b/simple'
global.find-links='/old'
global.timeout='60'
install.no-index='false'
install.timeout='90'
"""


def test_the_environment_comes_before_files_and_install_before_global() -> None:
    settings = install.pip_settings(LISTED)
    assert settings["find-links"] == "/wheels /more"
    assert settings["timeout"] == "90"


def test_each_index_and_folder_is_an_option_of_its_own() -> None:
    options = install.uv_options(install.pip_settings(LISTED))
    pairs = list(itertools.pairwise(options))
    assert [value for option, value in pairs if option == "--index"] == ["file:///a/simple", "file:///b/simple"]
    assert [value for option, value in pairs if option == "--find-links"] == ["/wheels", "/more"]
    assert "--no-index" not in options


def test_pip_of_today_lists_its_settings_in_this_form(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://a.example/simple\n[install]\nno-index = true\n")
    environment = {"PIP_CONFIG_FILE": str(file), "PIP_CERT": "/etc/ca.crt", "PIP_TRUSTED_HOST": "b.example"}
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    options = install.uv_options(install.pip_settings(listed))
    for option in ("--no-index", "--default-index https://a.example/simple", "--allow-insecure-host b.example"):
        assert option in " ".join(options)
    assert install.uv_variables(install.pip_settings(listed))["SSL_CERT_FILE"] == "/etc/ca.crt"


def test_uv_takes_what_it_is_given(tmp_path: Path) -> None:
    """An option that a later uv no longer knows would send every run to pip."""
    settings = {name: str(tmp_path) for name in (*install.SEVERAL, *install.ONE)} | {"no-index": "1"}
    settings |= {
        "constraint": str(tmp_path / "none.txt"),
        "index-url": "https://a.example",
        "extra-index-url": "https://b.example",
    }
    (tmp_path / "none.txt").touch()
    settings["trusted-host"] = "c.example"
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "-q",
        *install.uv_options(settings),
        str(tmp_path / "none.txt"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
