"""Make a PASSED kernel a `torch.library` operator, launched from its stored build.

1. `source` reads a step's kernel out of a store, with its problem, its cubin and the shapes it was tested on.
2. `shapes` derives from those what a call's tensors must look like, and the shapes of the results.
3. `plan_closure` turns the launch plan into a Python function, once.
4. `runner` runs a call: `launching` on a GPU, from the cubin on torch's stream; `emulated` without one.
5. `plugged` registers it with torch; `gather_mean` adds the gradient of the aggregation over neighbours.
"""

from cutegen_core.operators.gather_mean import GatherMean, gather_mean_of
from cutegen_core.operators.plugged import Plugged, plug
from cutegen_core.operators.source import Source, compiled, read_step

__all__ = ["GatherMean", "Plugged", "Source", "compiled", "gather_mean_of", "plug", "read_step"]
