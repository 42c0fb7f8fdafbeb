"""For each problem: its class, the menu items that are offered, the exemplar, and the bound; to be read critically.

python -m benchmarks.guide.menus [FILE.py ...]      (the built-in problems and those of tests/data/kernels, or files)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.conditions import write
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.propose.families.classify import classify, is_chain
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting.facts import bounds_of
from cutegen_core.propose.prompting.offers import offered, traits_of
from cutegen_core.records.problem import Problem
from cutegen_core.records.wording import micros
from tests.shared_tools import SharedTools

KERNELS = Path(__file__).parents[2] / "tests" / "data"


def problems(names: list[str]) -> list[Problem]:
    files = [Path(name) for name in names] or sorted((KERNELS / "kernels").glob("*.py"))
    with library.Loader() as loader:
        own = [loader.load(path) for path in (*files, *(KERNELS / "guide").glob("*.py")) if path.suffix == ".py"]
    return own if names else [*library.catalogue(), *own]


def row(problem: Problem, tools: SharedTools) -> dict[str, Any]:
    reference, workload = tools.reference(problem), problem.workloads[-1]
    signature, graph = reference.signature(workload), reference.graph(workload)
    request = ProposalRequest(problem, signature, graph, choose_device("sm_90a"), None)
    family, bounds = classify(graph), bounds_of(request)
    return {
        "problem": problem.name,
        "class": family.name + (" in a chain" if is_chain(graph) and family.otherwise is None else ""),
        "menu": [item.key for item in offered(request) if item.kind == "structure"],
        "true": sorted(traits_of(request)),
        "exemplar": family.exemplar_solves or (f"that of {family.exemplar_of}" if family.exemplar_of else "none"),
        "bound": f"{micros(bounds[0].us)}, {bounds[0].by}" if bounds else "none",
    }


def main() -> None:
    rows, tools = [], SharedTools()
    for problem in problems(sys.argv[1:]):
        rows.append(row(problem, tools))
        last = rows[-1]
        print(f"{last['problem']:36} {last['class']:34} {last['bound']:20} {last['exemplar']:18}", flush=True)
        print(f"    {', '.join(last['menu'])}\n    ({', '.join(last['true'])})", flush=True)
    tools.close()
    write("menus", {"problems": len(rows), "rows": rows})


if __name__ == "__main__":
    main()
