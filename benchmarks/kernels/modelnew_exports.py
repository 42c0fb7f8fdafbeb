"""Exports the playbook's last kernel of every built-in problem as a KernelBench `ModelNew` file; needs no GPU.

    python -m benchmarks.kernels.modelnew_exports FOLDER

`modelnew.py` builds and runs them on a machine with one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from cutegen_core.judge.reference import Reference
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.candidate import content_key
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.share.exports import bundle
from cutegen_core.share.exports.modelnew import modelnew_file


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for problem in library.catalogue():
        with tempfile.TemporaryDirectory() as scratch, Reference(problem, Path(scratch)) as reference:
            timed = problem.with_role(WorkloadRole.BENCHMARK)
            signatures = {workload.name: reference.signature(workload) for workload in timed}
            source = playbook.propose(reference.graph(timed[0]), signatures[timed[0].name], problem.name)[-1].source
        made = bundle.build(problem, source, "sm_90a", content_key(source), "playbook", signatures=signatures)
        (folder / f"{problem.name}.py").write_text(modelnew_file(made), encoding="utf-8")
        print(problem.name, made.kernel.idea, flush=True)


if __name__ == "__main__":
    main()
