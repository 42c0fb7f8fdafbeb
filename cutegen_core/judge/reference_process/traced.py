"""Import what torch imports at its first fake tensor (800 modules, a second), too: once for all traced files.

Nothing here may start a thread (`machine.fork_server`). Fake tensors first ask the driver how many GPUs there are, and
the driver starts one: the small trace does without the question, the files' own ask it in their process.
"""

import torch

from cutegen_core.judge.reference_process import main, tracing, worker

__all__ = ["main"]

_SMALL = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.rand(1)]
"""

worker.set_up_torch()
_ask = torch._C._ensureCUDADeviceGuardSet
torch._C._ensureCUDADeviceGuardSet = lambda: None
try:
    tracing.trace(_SMALL, "warm-up")
finally:
    torch._C._ensureCUDADeviceGuardSet = _ask
