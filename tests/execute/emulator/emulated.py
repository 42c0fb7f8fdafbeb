"""Runs a kernel text on the emulator with numpy arrays in and out; shared by the emulator's tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Built, CompiledCode, Executed, Execution
from cutegen_core.kernel import kernel_file
from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument, Scratch, TensorArgument
from cutegen_core.records.problem import TensorRole, TensorSpec
from cutegen_core.records.trial import Finding, Status

BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Ran:
    """What a run gave: the verdict and the outputs as numpy arrays (bfloat16 as float32)."""

    executed: Executed
    outputs: Mapping[str, np.ndarray]

    @property
    def status(self) -> Status:
        return self.executed.status

    @property
    def finding(self) -> Finding:
        return self.executed.findings[0]


def spec(name: str, array: np.ndarray, role: TensorRole, dtype: str = "") -> TensorSpec:
    return TensorSpec(name, dtype or str(array.dtype), array.shape, role)


def to_bytes(array: np.ndarray, dtype: str) -> bytes:
    if dtype != BFLOAT16:
        return array.tobytes()
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def from_bytes(data: bytes, like: TensorSpec) -> np.ndarray:
    if like.dtype == BFLOAT16:
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(like.shape)
    return np.frombuffer(data, np.dtype(like.dtype)).reshape(like.shape)


def not_asked() -> CompiledCode:
    """Fail: the emulator builds from source; it never waits for NVIDIA's compiler."""
    raise AssertionError("the emulator asked for a cubin")


class Harness:
    """One executor, a folder for tensors, and builds kept by text."""

    def __init__(self, executor: CpuExecutor, folder: Path) -> None:
        self.executor = executor
        self.folder = folder

    def build(self, source: str, *, checked: bool = False) -> Built:
        return self.executor.build(kernel_file.parse(source), {}, not_asked, checked=checked)

    def run(
        self,
        source: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
        plan: LaunchPlan,
        *,
        checked: bool = False,
        dtypes: Mapping[str, str] | None = None,
        order: str = "forward",
        seed: int = 0,
        timeout_s: float = 20.0,
        edge: int = 0,
    ) -> Ran:
        built = self.build(source, checked=checked)
        assert built.status is Status.PASSED, f"{built.message}\n{built.log}"
        dtypes = dtypes or {}
        given, wanted = {}, {}
        for name, array in inputs.items():
            given[spec(name, array, TensorRole.INPUT, dtypes.get(name, ""))] = path = self.folder / f"{name}.in"
            path.write_bytes(to_bytes(array, dtypes.get(name, "")))
        for name, array in outputs.items():
            wanted[spec(name, array, TensorRole.OUTPUT, dtypes.get(name, ""))] = path = self.folder / f"{name}.out"
            path.write_bytes(b"")
        with self.executor.open(built) as execute:
            made = Execution(built, plan, given, wanted, order=order, seed=seed, timeout_s=timeout_s, edge=edge)
            executed = execute(made)
        read = {t.name: p.read_bytes() for t, p in wanted.items()}
        values = {t.name: from_bytes(read[t.name], t) for t in wanted if len(read[t.name]) == t.nbytes}
        return Ran(executed, values)


def launch(
    kernel: str, grid: int | tuple[int, int, int], block: int | tuple[int, int, int], *args: object, smem: int = 0
) -> Launch:
    """Return a launch from plain values: "name:dtype" is a tensor, a number a scalar."""
    three = [(v, 1, 1) if isinstance(v, int) else v for v in (grid, block)]
    made = tuple(
        TensorArgument(*a.split(":")) if isinstance(a, str) else ScalarArgument(a, str(a))  # type: ignore[arg-type]
        for a in args
    )
    return Launch(kernel, three[0], three[1], smem, made)


def one(
    kernel: str, grid: int | tuple[int, int, int], block: int | tuple[int, int, int], *args: object, smem: int = 0
) -> LaunchPlan:
    return LaunchPlan((launch(kernel, grid, block, *args, smem=smem),))


def kernel(names: str | tuple[str, ...], body: str) -> str:
    """Return a kernel file whose plan only lists kernels: tests hand resolved plans to the executor. The body begins
    at line `FIRST_LINE` for one kernel."""
    listed = (names,) if isinstance(names, str) else names
    launches = "".join(f'[[launch]]\nkernel = "{n}"\ngrid = ["1"]\nblock = ["1"]\nargs = []\n' for n in listed)
    return f"/* cutegen\n{launches}*/\n#include <cute/tensor.hpp>\nusing namespace cute;\n{body}"


def line_of(source: str, mark: str) -> int:
    """Return the line, counted from 1, of the kernel file that holds `mark`."""
    lines = [number for number, line in enumerate(source.splitlines(), 1) if mark in line]
    assert len(lines) == 1, f"{mark!r} on lines {lines}"
    return lines[0]


__all__ = ["BFLOAT16", "Harness", "Ran", "Scratch", "kernel", "launch", "line_of", "one"]
