"""The folder that brings a kernel back into its library: drop-in, operator, patch, and a script that checks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.share.exports import bundle as bundles
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.extension import write
from cutegen_core.share.exports.library import dropin
from cutegen_core.share.exports.library.facts import LibraryFacts, Original, benchmark_sources, collect, count_lines
from cutegen_core.share.exports.library.operator import operator_module
from cutegen_core.share.exports.library.patch import Patch, patch
from cutegen_core.share.exports.modelnew import raw_string
from cutegen_core.share.exports.rendering import one_line, render


def write_library(bundle: Bundle, output: Path) -> None:
    """Write the folder, or a .zip of it."""
    write(library(bundle), output)


def library(bundle: Bundle) -> Mapping[str, str]:
    """Return the texts by path.

    Raises:
        UsageError: what the original's signature, ALIAS or the outputs' shapes rule out.
    """
    original = Original(*bundle.original) if bundle.original else None
    facts = collect(bundle, original)
    name, changed = bundle.name, patch(facts)
    lines = _lines(facts, changed)
    existing = _existing(facts)
    files = {
        f"{name}.cu": f"// Exported by {bundle.origin}.\n{dropin.dropin_file(facts)}",
        f"{name}_op.py": operator_module(facts),
        f"{name}.patch": changed.text,
        "check.py": _check(facts, f"{name}_original" if existing else "", lines),
        "README.md": render(
            "library_README.md.jinja",
            name=name,
            origin=bundle.origin,
            head=one_line(dropin.head(facts)),
            original=f"{name}_original" if existing else "",
            lines=lines,
            in_place="; ".join(f"{output} is written over {replaced}" for output, replaced in facts.in_place.items()),
        ),
    }
    return files | ({f"{name}_original_op.py": existing} if existing else {})


def _existing(facts: LibraryFacts) -> str:
    """Return the existing kernel as an operator of its own, "" for a problem without one."""
    problem = facts.bundle.problem
    if not problem.existing:
        return ""
    try:
        built = bundles.build(
            problem, problem.existing, facts.bundle.arch, "existing", f"the existing kernel of {problem.name}",
            signatures=facts.bundle.shapes,
        )  # fmt: skip
    except UsageError as error:
        raise UsageError(f"the existing kernel cannot be exported with the new one: {error}") from error
    apart = replace(built, name=f"{facts.bundle.name}_original", open_numbers=True)
    return operator_module(replace(facts, bundle=apart))


def _lines(facts: LibraryFacts, changed: Patch) -> Mapping[str, int]:
    """Count the lines of code before and after: of the file, and of device code alone."""
    existing, kernel = facts.bundle.problem.existing, facts.bundle.kernel.body
    return {
        "before": changed.before,
        "after": changed.after,
        "kernel_before": count_lines(existing.partition("*/")[2]),
        "kernel_after": count_lines(kernel),
    }


def _check(facts: LibraryFacts, original: str, lines: Mapping[str, int]) -> str:
    problem, outputs = facts.bundle.problem, facts.bundle.signature.outputs
    timed = problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads[:1]
    tolerance = {
        w.name: {
            o.name: (found.atol, found.rtol)
            for o in outputs
            if (found := problem.tolerance_for(o.dtype, o.name, w)) is not None
        }
        for w in timed
    }
    sources = benchmark_sources(problem)
    return render(
        "library_check.py.jinja",
        against="the reference and the existing kernel" if original else "the reference",
        name=facts.bundle.name,
        original=repr(original),
        numbers=repr(facts.bundle.scalars()),
        outputs=repr([o.name for o in outputs]),
        in_place=repr(dict(facts.in_place)),
        tolerance=repr(tolerance),
        lines=repr(lines),
        shapes=[(json.dumps(name), raw_string(source)) for name, source in sources.items()],
    )
