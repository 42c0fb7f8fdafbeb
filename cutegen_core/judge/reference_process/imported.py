"""Import torch and what answers requests: what every worker needs, before it is forked (`machine.fork_server`)."""

import torch

from cutegen_core.judge.reference_process import main

__all__ = ["main"]

torch.set_grad_enabled(False)
# The work is small, sums must not depend on the number of processors, and a fork has no pool of threads.
torch.set_num_threads(1)
