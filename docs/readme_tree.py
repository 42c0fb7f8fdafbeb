"""Writes the README's tree, one line a module from its own docstring: `python -m docs.readme_tree`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- tree: python -m docs.readme_tree -->", "<!-- end of tree -->"
FOLDERS = {
    "pages": "thin pages; each reads top to bottom as a script",
    "pages/components": "what the pages are made of: functions that draw one thing and own its keys",
    "cutegen_core": "the core: words, ports, the loop; imports point downwards only",
    "cutegen_core/problems/catalogue": "the built-in problems, in KernelBench's shape",
    "benchmarks": "scripts behind every figure; results/ holds what they measured and under which conditions",
    "benchmarks/kernels": "hand-written kernels with their references, for the cross-check and the timer",
    "docs": "pages to read, and the scripts that make their pictures and this tree",
}
TITLES_ONLY = ("cutegen_core/problems/catalogue",)


def tree() -> str:
    """The tree as the README shows it."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders: dict[str, list[Path]] = {}
    for name in listed.stdout.split():
        folders.setdefault(str(Path(name).parent), []).append(ROOT / name)
    lines = [*_top()]
    for folder in sorted(f for f in folders if f.split("/")[0] in ("pages", "cutegen_core", "benchmarks", "docs")):
        lines += _folder(folder, folders[folder])
    tests = sorted({folder.split("/")[1] for folder in folders if folder.startswith("tests/")})
    lines += [_line("tests/", f"{', '.join(tests)}; tests/run is the one command")]
    return "\n".join(lines)


def _top() -> Iterator[str]:
    yield _line("app.py", "the server: Host check, engine, frame")


def _folder(folder: str, files: list[Path]) -> Iterator[str]:
    init = next((f for f in files if f.name == "__init__.py"), None)
    yield _line(f"{folder}/", FOLDERS.get(folder) or (_first_line(init) if init else ""))
    modules = [f for f in files if f.name != "__init__.py"]
    if folder in TITLES_ONLY:
        yield f"    {', '.join(f.stem for f in modules)}"
        return
    for module in modules:
        yield _line(f"    {module.name}", _first_line(module))


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def _line(name: str, comment: str) -> str:
    return f"{name:28} {comment}".rstrip()


def with_tree(readme: str) -> str:
    """The README's text with the current tree between its markers."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n```\n{tree()}\n```\n{END}{after}"


def main() -> int:
    """Writes the README; exit code 1 with `--check` when it is out of date."""
    text = README.read_text()
    wanted = with_tree(text)
    if "--check" in sys.argv:
        return 0 if wanted == text else 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
