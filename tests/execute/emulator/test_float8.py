"""8-bit floats on the emulator: every code, and floats of every kind, by CUDA's, CUTLASS's and PTX's conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Execution
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.check_arguments import check_arguments
from cutegen_core.machine.device import choose_device
from cutegen_core.records.trial import Status
from tests import float8
from tests.execute.emulator.emulated import not_asked
from tests.float8 import CODES, E4M3, E5M2, Format
from tests.later import Later
from tests.shared_tools import SharedTools

torch = Later("torch")
X = float8.samples()
KERNEL = kernel_file.parse(float8.KERNEL.read_text())
PLAN = KERNEL.plan(float8.signature(X), choose_device("sm_90a"))


@pytest.mark.parametrize(("form", "dtype"), [(E4M3, "float8_e4m3fn"), (E5M2, "float8_e5m2")])
def test_the_table_is_torchs(form: Format, dtype: str) -> None:
    """Beyond the largest number versions of torch differ, so there nothing is compared."""
    of = getattr(torch, dtype)
    assert np.array_equal(torch.from_numpy(CODES).view(of).float().numpy(), float8.values(form), equal_nan=True)
    within = X[np.abs(X) <= float8.values(form)[form.largest]]
    got = torch.from_numpy(within).to(of).view(torch.uint8).numpy()
    assert np.array_equal(got, float8.encode(within, form, saturate=True))


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_every_conversion_is_exact(executor: CpuExecutor, tmp_path: Path, checked: bool) -> None:
    built = executor.build(KERNEL, {}, not_asked, checked=checked)
    assert built.status is Status.PASSED, built.log
    files = {spec: tmp_path / spec.name for spec in float8.signature(X).tensors}
    given, written = {}, {}
    for spec, path in files.items():
        path.write_bytes({"x": X.tobytes(), "codes": CODES.tobytes()}.get(spec.name, b""))
        (written if spec.name.startswith("out") else given)[spec] = path
    with executor.open(built) as execute:
        ran = execute(Execution(built, PLAN, given, written))
    assert ran.status is Status.PASSED, ran.message
    for spec, output in zip(written, float8.outputs(X), strict=True):
        wrong = output.wrong(files[spec].read_bytes())
        assert not wrong.size, (spec.name, wrong[:5], X[wrong[:5]] if wrong[0] < len(X) else "")


def test_its_arguments_fit_the_compiled_kernel_and_others_do_not(shared: SharedTools) -> None:
    compiled = shared.compiler().compile(KERNEL)
    assert compiled.status is Status.PASSED, compiled.log
    assert check_arguments(PLAN, compiled.kernels) == ()
    text = float8.KERNEL.read_text()
    swapped = kernel_file.parse(text.replace('"out4", "out5"', '"out5", "out4"'))
    found = check_arguments(swapped.plan(float8.signature(X), choose_device("sm_90a")), compiled.kernels)
    assert [f.severity for f in found] == ["error", "error"]
    assert "cutlass::float_e4m3_t*" in found[0].message
    assert "float8_e5m2" in found[0].message
