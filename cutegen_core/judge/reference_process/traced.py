"""Import what torch imports at its first fake tensor (800 modules, a second), too: once for all traced files."""

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
tracing.trace(_SMALL, "warm-up")
