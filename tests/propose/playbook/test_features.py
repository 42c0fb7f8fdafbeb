"""What of CuTe the best kernels use: tiled copies where operands are staged, tiled products on tensor cores.

The built-in problems; `CUTEGEN_CHECKOUT` names a folder of further ones, such as level 1 of a KernelBench checkout.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutegen_core.kernel.screening import blank_comments
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library
from cutegen_core.propose.playbook import NotInPlaybook, Target, cute_features, propose
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, WorkloadRole
from tests.shared_tools import SharedTools

_STAGES = r"\bSM80_CP_ASYNC\w*|\bstage_tile\b|\bcp\.async\b"
_TENSOR_CORES = r"\bSM80_16x8x\w+|\bmma\.sync\b|\bSM90::GMMA::\w*MMA|\bwmma\b"


def problems() -> Iterator[Problem]:
    yield from library.catalogue()
    folder = os.environ.get("CUTEGEN_CHECKOUT")
    for path in sorted(Path(folder).glob("*.py")) if folder else ():
        yield library.load(str(path))


def missing_of(source: str) -> list[str]:
    """Return what a kernel does by hand that CuTe has."""
    code, used = blank_comments(source), cute_features(source)
    found = ["TiledCopy"] if re.search(_STAGES, code) and "TiledCopy" not in used else []
    return found + (["TiledMMA"] if re.search(_TENSOR_CORES, code) and "TiledMMA" not in used else [])


def test_what_is_done_by_hand_is_found() -> None:
    assert missing_of("SM80_CP_ASYNC_CACHEALWAYS<float>::copy(a, b);") == ["TiledCopy"]
    assert missing_of('asm("mma.sync.aligned.m16n8k8");'.replace('"', "")) == ["TiledMMA"]
    assert (
        missing_of("// SM80_CP_ASYNC\nauto c = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<float>, float>{});")
        == []
    )


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_staged_operands_use_tiled_copies_and_tensor_cores_tiled_products(
    step: int, shared: SharedTools, tmp_path: Path
) -> None:
    found, written = {}, 0
    for problem in list(problems())[::step]:
        reference = shared.reference(problem, tmp_path)
        own = next(w for w in problem.workloads if w.role is WorkloadRole.BENCHMARK)
        try:
            variants = propose(reference.graph(own), reference.signature(own), problem.name, Target(KNOWN["sm_90a"]))
        except (NotInPlaybook, ProblemError):
            continue
        written += 1
        if missing := missing_of(variants[-1].source):
            found[problem.name] = missing
    assert found == {}
    assert written >= 25 // step


@pytest.mark.parametrize("name", ["matmul_square", "matmul_transposed_b"])
def test_the_best_product_uses_all_of_it(name: str, shared: SharedTools, tmp_path: Path) -> None:
    problem = next(p for p in library.catalogue() if p.name == name)
    reference = shared.reference(problem, tmp_path)
    own = next(w for w in problem.workloads if w.role is WorkloadRole.BENCHMARK)
    variants = propose(reference.graph(own), reference.signature(own), name)
    assert {"TiledCopy", "TiledMMA", "Swizzle", "cp.async", "gemm"} <= set(cute_features(variants[-1].source))
