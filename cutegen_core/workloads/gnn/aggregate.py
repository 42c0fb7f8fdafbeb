"""Average neighbours: the seam through which every model but GAT reads a neighbourhood, and what is plugged there.

An aggregate is a function of (table [m, D], idx [E], indptr [n + 1]). Row r of its result [n, D] is the mean of the
table's rows `idx[indptr[r]:indptr[r + 1]]`; an empty row gives 0. It has a gradient by the table. One whose gradient is
added up in one order reads the transposed rows, too: the loader prepares them, and without them they are worked out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import DETERMINISTIC_AGGREGATES, KERNEL_PREFIX, TORCH_AGGREGATES, Gradient

warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")

Means = Callable[[Tensor, Tensor, Tensor], Tensor]
"""What torch computes of table, idx and indptr."""


class TransposedTensors(NamedTuple):
    """The rows that read each source, as `TransposedHop`."""

    users: Tensor
    starts: Tensor


class Aggregate(Protocol):
    """See above."""

    def __call__(
        self, table: Tensor, idx: Tensor, indptr: Tensor, transposed: TransposedTensors | None = None, /
    ) -> Tensor: ...


class ChosenAggregate(NamedTuple):
    """An aggregate by its name.

    Attributes:
        note: of a kernel, how it runs; "" for torch's own.
        dtype: of the tables that it takes without a conversion; None for any.
        transposed: its gradient reads the transposed rows.
    """

    name: str
    run: Aggregate
    note: str = ""
    dtype: torch.dtype | None = None
    transposed: bool = False


def choose_aggregate(name: str, gradient: Gradient = Gradient.ANY) -> ChosenAggregate:
    """Return the aggregate of a settings' name.

    Raises:
        UsageError: the name is unknown, no accepted or passed kernel of the right signature has it, or it has no
            gradient of this kind.
    """
    if name in _OF_TORCH:
        return _choose_torchs(name, gradient)
    if name.startswith(KERNEL_PREFIX):
        return _choose_kernel(name, gradient)
    raise UsageError(
        f'aggregate is "{name}": choose one of {", ".join(TORCH_AGGREGATES)}, or {KERNEL_PREFIX}SESSION.STEP for a '
        "kernel that passed."
    )


def embedding_bag(table: Tensor, idx: Tensor, indptr: Tensor) -> Tensor:
    """Return the means by PyTorch's own fused gather and mean."""
    return F.embedding_bag(idx, table, indptr, mode="mean", include_last_offset=True)


def index_add(table: Tensor, idx: Tensor, indptr: Tensor) -> Tensor:
    """Return the means by a gather into [E, D] and a scatter."""
    degrees = indptr.diff()
    sums = table.new_zeros(len(degrees), table.shape[1])
    sums = sums.index_add(0, rows_of(indptr, len(idx)), table.index_select(0, idx))
    return sums / degrees.clamp(min=1).to(sums.dtype)[:, None]


def spmm(table: Tensor, idx: Tensor, indptr: Tensor) -> Tensor:
    """Return the means as the product of a CSR matrix of 1 / degree and the table.

    On a CPU it computes in float32, since MKL has no sparse product of halves.
    """
    wide = table if table.is_cuda else table.float()
    degrees = indptr.diff()
    weights = degrees.clamp(min=1).reciprocal().to(wide.dtype).repeat_interleave(degrees, output_size=len(idx))
    with torch.autocast(table.device.type, enabled=False):
        matrix = torch.sparse_csr_tensor(indptr, idx, weights, size=(len(degrees), len(wide)), check_invariants=False)
        return (matrix @ wide).to(table.dtype)


def rows_of(indptr: Tensor, entries: int) -> Tensor:
    """Return the row of each entry, [E]."""
    degrees = indptr.diff()
    rows = torch.arange(len(degrees), device=indptr.device)
    return rows.repeat_interleave(degrees, output_size=entries)


def _choose_torchs(name: str, gradient: Gradient) -> ChosenAggregate:
    means = _OF_TORCH[name]
    if gradient is Gradient.ANY:
        return ChosenAggregate(name, lambda table, idx, indptr, _=None: means(table, idx, indptr))
    if name not in DETERMINISTIC_AGGREGATES:
        raise UsageError(
            f"gradient is deterministic, but {name} adds up in no fixed order on a GPU: choose "
            f"{', '.join(DETERMINISTIC_AGGREGATES)} or a kernel, or gradient {Gradient.ANY}."
        )
    # Late, as below.
    from cutegen_core.operators.gather_mean import mean_function, ordered_gradient

    function = mean_function(means, ordered_gradient, ordered_gradient)

    def run(table: Tensor, idx: Tensor, indptr: Tensor, transposed: TransposedTensors | None = None, /) -> Tensor:
        return function(table, idx, indptr, transposed)

    return ChosenAggregate(name, run, transposed=True)


def _choose_kernel(name: str, gradient: Gradient) -> ChosenAggregate:
    # Late: a run with torch's own aggregates needs neither the store nor a compiler.
    from cutegen_core.operators import gather_mean_of
    from cutegen_core.trajectory.store import Store

    deterministic = gradient is Gradient.DETERMINISTIC
    kernel = gather_mean_of(Store(), name.removeprefix(KERNEL_PREFIX), deterministic=deterministic)

    def run(table: Tensor, idx: Tensor, indptr: Tensor, transposed: TransposedTensors | None = None, /) -> Tensor:
        return kernel(table.to(kernel.dtype), idx, indptr, transposed).to(table.dtype)

    note = f"{kernel.note}; tables of another dtype are converted to {kernel.dtype} for it"
    return ChosenAggregate(name, run, note, kernel.dtype, kernel.ordered)


_OF_TORCH: dict[str, Means] = dict(zip(TORCH_AGGREGATES, (embedding_bag, index_add, spmm), strict=True))
