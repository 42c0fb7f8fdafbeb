"""A torch extension project: kernel, binding, a drop-in module, a test, and how to build it; as a folder or a zip."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from cutegen_core.records.errors import UsageError
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.host_cpp import nvcc_flags
from cutegen_core.share.exports.modelnew import contract
from cutegen_core.share.exports.own_names import digest
from cutegen_core.share.exports.reference_module import renamed
from cutegen_core.share.exports.rendering import one_line, render
from cutegen_core.share.exports.torch_binding import binding, kernel_header, kernel_source


def project(bundle: Bundle) -> Mapping[str, str]:
    """Path inside the project -> text."""
    bundle.require_constant_numbers("an extension")
    name, package = bundle.name, f"cutegen_{bundle.name}"
    flags = [f for f in nvcc_flags(bundle.arch) if not f.startswith("-arch")]
    code = bundle.arch.removeprefix("sm_")
    code_files = {
        f"src/{name}.h": kernel_header(bundle),
        f"src/{name}.cu": kernel_source(bundle),
        "src/bindings.cpp": binding(bundle),
    }
    facts = {
        "name": name,
        "package": package,
        "idea": one_line(bundle.kernel.idea),
        "origin": bundle.origin,
        "title": one_line(bundle.problem.title),
        "arch": bundle.arch,
        "nvcc_flags": repr([*flags, f"-gencode=arch=compute_{code},code=sm_{code}"]),
        "contract": contract(bundle),
        "digest": digest(*code_files.values()),
        "order": repr([t.name for t in bundle.signature.tensors]),
    }
    return {
        "README.md": render("extension_README.md.jinja", **facts),
        "pyproject.toml": render("extension_pyproject.toml.jinja", **facts),
        "setup.py": render("extension_setup.py.jinja", **facts),
        **code_files,
        f"{package}/__init__.py": render("extension_module.py.jinja", **facts),
        f"{package}/reference.py": renamed(bundle.problem, "Model"),
        f"tests/test_{name}.py": render("extension_test.py.jinja", **facts),
    }


def write_project(bundle: Bundle, output: Path) -> None:
    """Write the project of a kernel."""
    write(project(bundle), output)


def write(files: Mapping[str, str], output: Path) -> None:
    """Write the project as a zip if `output` ends in .zip, else as a folder.

    Raises:
        UsageError: the folder exists and is not empty.
    """
    if output.suffix == ".zip":
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in files.items():
                archive.writestr(f"{output.stem}/{path}", text)
        return
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} exists already: name a new or an empty folder, or a .zip")
    for path, text in files.items():
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (output / path).write_text(text, encoding="utf-8")
