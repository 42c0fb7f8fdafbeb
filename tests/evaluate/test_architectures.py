"""A kernel that asks for its architecture gets the target's, from both compilers."""

from __future__ import annotations

import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.trial import Status
from tests.adversarial.files import relu
from tests.execute.emulator.emulated import not_asked
from tests.shared_tools import SharedTools

BRANCH = "#if __CUDA_ARCH__ != {}\n#error another architecture\n#endif\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n{}\n#endif"


@pytest.mark.parametrize(
    ("arch", "number"), [("sm_80", 800), pytest.param("sm_100a", 1000, marks=pytest.mark.thorough)]
)
def test_both_compilers_answer_for_the_target(shared: SharedTools, arch: str, number: int) -> None:
    kernel = parse(relu(before=BRANCH.format(number, "#error a feature of sm_90a")))
    executor: CpuExecutor = shared.executor
    code = shared.compiler(arch).compile(kernel, None, executor.write_probe(kernel, arch))
    assert (code.status, code.differing) == (Status.PASSED, ()), code.message
    built = executor.build(kernel, {}, not_asked, checked=False, arch=arch)
    assert built.status is Status.PASSED, built.message
    assert executor.build(kernel, {}, not_asked, checked=False).status is Status.COMPILE_ERROR
