"""Runs hand-written plans of `gpu_kernels.cu` on the GPU executor, with numpy arrays in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import FUNCTIONS, Function
from cutegen_core.execute.executors.gpu import CUBIN, GpuExecutor
from cutegen_core.execute.port import Built, Execute, Executed, Execution
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument, Scratch, TensorArgument
from cutegen_core.records.problem import TensorRole, TensorSpec
from cutegen_core.records.trial import Status

KERNELS = Path(__file__).parent / "gpu_kernels.cu"


@dataclass(frozen=True)
class Ran:
    """The verdict and the outputs."""

    executed: Executed
    outputs: Mapping[str, np.ndarray]

    @property
    def status(self) -> Status:
        return self.executed.status

    @property
    def message(self) -> str:
        return self.executed.message

    @property
    def out(self) -> np.ndarray:
        return self.outputs["out"]


def build(arch: str, folder: Path) -> Built:
    """Return every kernel of the file compiled into `folder`, as the executor keeps a build; needs no GPU."""
    compiler = Compiler(arch, folder / "compile")
    result = compiler.compile(parse(KERNELS.read_text()))
    compiler.close()
    assert result.status is Status.PASSED, result.log
    functions = {name: asdict(Function(mangled, demangle(mangled))) for name, mangled in result.lowered.items()}
    (folder / CUBIN).write_bytes(result.cubin)
    (folder / FUNCTIONS).write_text(json.dumps(functions))
    return Built(Status.PASSED, folder / CUBIN, False, 0.0)


class Harness:
    """One executor over one built candidate that holds every kernel."""

    def __init__(self, folder: Path, built: Built | None = None) -> None:
        self.executor = GpuExecutor(folder / "cache")
        self.folder = folder
        self.built = built or build(self.executor.device.arch, folder)

    def run(
        self,
        *launches: Launch,
        execute: Execute | None = None,
        scratch: tuple[Scratch, ...] = (),
        poison: int = 0xFF,
        timeout_s: float = 10.0,
        out: np.ndarray | None = None,
        **inputs: np.ndarray,
    ) -> Ran:
        """Return launches over `inputs`; `out` gives the output's dtype and shape."""
        out = np.zeros(1, np.float32) if out is None else out
        files = {self._spec(name, array, TensorRole.INPUT): self._file(name, array) for name, array in inputs.items()}
        spec = self._spec("out", out, TensorRole.OUTPUT)
        outputs = {spec: self._file("out", out)}
        plan = LaunchPlan(launches, scratch)
        execution = Execution(self.built, plan, files, outputs, poison, timeout_s=timeout_s)
        if execute is not None:
            executed = execute(execution)
        else:
            with self.executor.open(self.built) as fresh:
                executed = fresh(execution)
        values = np.frombuffer(outputs[spec].read_bytes(), out.dtype).reshape(out.shape)
        return Ran(executed, {"out": values})

    def _spec(self, name: str, array: np.ndarray, role: TensorRole) -> TensorSpec:
        return TensorSpec(name, str(array.dtype), array.shape, role)

    def _file(self, name: str, array: np.ndarray) -> Path:
        path = self.folder / name
        path.write_bytes(array.tobytes())
        return path


def launch(kernel: str, *args: str | int | float, grid: int = 1, block: int = 1, **more: object) -> Launch:
    """Return a launch; names are tensors, numbers are scalars."""
    given = tuple(TensorArgument(a, "") if isinstance(a, str) else ScalarArgument(a, str(a)) for a in args)
    cluster, cooperative = more.get("cluster", 1), bool(more.get("cooperative", False))
    return Launch(
        kernel, (grid, 1, 1), (block, 1, 1), int(more.get("smem", 0)), given, (cluster, 1, 1), cooperative, line=7
    )
