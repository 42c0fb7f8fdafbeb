"""Run a kernel file's one kernel on this machine's GPU, with numpy arrays in and out: to record what it computes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.cuda.launching import DeviceTensor, LoadedProgram
from cutegen_core.execute.cuda.program import Function, make_program
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.launch import LaunchPlan
from tests.later import Later

torch = Later("torch")


def run_on_gpu(source: str, plan: LaunchPlan, inputs: Mapping[str, np.ndarray], out: np.ndarray) -> np.ndarray:
    """Return the output `out` of a launch on a GPU of sm_90a."""
    compiler = Compiler("sm_90a", once=True)
    made = compiler.compile(parse(source))
    compiler.close()
    assert made.lowered is not None, made.message
    tensors = {name: torch.tensor(array, device="cuda") for name, array in {**inputs, "out": out}.items()}
    functions = {k.kernel: Function(made.lowered[k.kernel], k.signature) for k in made.kernels}
    places = {name: DeviceTensor(t.data_ptr(), t.nbytes, name == "out") for name, t in tensors.items()}
    program = LoadedProgram(made.cubin, make_program(plan, functions), [places], {})
    program.run(torch.cuda.current_stream().cuda_stream, 0)
    torch.cuda.synchronize()
    computed: np.ndarray = tensors["out"].cpu().numpy()
    return computed
