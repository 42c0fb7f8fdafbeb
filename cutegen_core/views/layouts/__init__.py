"""Show what the CuTe layouts, tiled copies and tiled MMAs of a kernel are: found in its text, evaluated by compiling.

1. `reading.find` lists the declarations of a kernel that are layouts or partitions, with the declarations they need.
2. `probe.evaluate` builds and runs a kernel that evaluates one of them, on any executor; the emulator will do.
3. `banks.conflicts` counts what a warp's access to a layout in shared memory costs.

Nothing of CuTe's algebra is imitated. What depends on a value that is known only at run time does not compile; the
error says which name to replace.
"""

from cutegen_core.views.layouts.banks import Pattern, bank, conflicts
from cutegen_core.views.layouts.pictures import LayoutTable, Partition, Picture
from cutegen_core.views.layouts.probe import evaluate, probe_source
from cutegen_core.views.layouts.reading import Declared, find

__all__ = [
    "Declared",
    "LayoutTable",
    "Partition",
    "Pattern",
    "Picture",
    "bank",
    "conflicts",
    "evaluate",
    "find",
    "probe_source",
]
