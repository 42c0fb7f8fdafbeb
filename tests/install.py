"""Install the workbench and what its tests need into this Python's environment.

uv does it in a sixth of pip's time, but reads none of pip's settings: they are handed over. Where uv cannot, pip does.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

ASKED = ("-c", "constraints.txt", "-e", ".[test]")

# Options of uv for settings of pip that may name several things, apart by white space, and for those that name one.
SEVERAL = {
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
    "trusted-host": "--allow-insecure-host",
}
ONE = {"index-url": "--default-index"}
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "proxy": "ALL_PROXY",
}


def pip_settings(listed: str) -> dict[str, str]:
    """Return pip's settings by name from what `pip config list` printed; the environment comes before files."""
    settings: dict[str, str] = {}
    ranks = ("global", "install", ":env:")
    lines = [line.partition("=") for line in listed.splitlines() if "=" in line]
    for rank in ranks:
        for key, _, value in lines:
            section, _, name = key.rpartition(".")
            if section == rank:
                settings[name] = str(ast.literal_eval(value))
    return settings


def uv_options(settings: dict[str, str]) -> list[str]:
    """Return the options that make uv look for packages where pip would; the best version of all indices is taken."""
    options = ["--index-strategy", "unsafe-best-match"]
    for name, value in settings.items():
        if name in SEVERAL:
            options += [word for one in value.split() for word in (SEVERAL[name], one)]
        elif name in ONE:
            options += [ONE[name], value]
        elif name == "no-index" and value.lower() in ("1", "true", "yes", "on"):
            options.append("--no-index")
    return options


def uv_variables(settings: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that hand pip's certificates, time limit and proxy to uv."""
    return {VARIABLES[name]: value for name, value in settings.items() if name in VARIABLES}


def main() -> int:
    """Install by uv, or else by pip; return the exit status of the one that had the last word."""
    pip = [sys.executable, "-m", "pip"]
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False)
    settings = pip_settings(listed.stdout)
    if subprocess.run([*pip, "install", "-q", "-c", "constraints.txt", "uv"], check=False).returncode == 0:
        uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *uv_options(settings), *ASKED]
        if subprocess.run(uv, env={**os.environ, **uv_variables(settings)}, check=False).returncode == 0:
            return 0
    print("uv could not install the packages (see above). pip installs them: that takes some minutes", flush=True)
    return subprocess.run([*pip, "install", "--no-compile", *ASKED], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
