"""The mean over each row's neighbours by plugged kernels, with its gradient.

The gradient is a kernel's, too, where one is named: `gather_mean_backward`, or its deterministic form, which gets the
transposed graph: from the caller, or else torch sorts it. Otherwise torch computes the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch._library.custom_ops import CustomOpDef

from cutegen_core.operators.plugged import define, plug
from cutegen_core.operators.runner import KernelRunner
from cutegen_core.operators.source import Source, read_step
from cutegen_core.records.errors import UsageError
from cutegen_core.trajectory.store import Store

_FORWARD = ("table", "idx", "indptr")
_BACKWARD = ("grad", "idx", "indptr")
_DETERMINISTIC = ("grad", "users", "starts", "indptr")
_ERROR_UNITS = 16
"""Rounding units of the dtype, at the scale of the result, that a trial call may differ from torch."""

Transposed = tuple[torch.Tensor, torch.Tensor]
"""For each source in turn the rows that have it as an entry, ascending, and where each source's begin."""


class Entries(NamedTuple):
    """What a gradient reads beside that of the result: the rows, their number of sources, the transposed ones."""

    idx: torch.Tensor
    indptr: torch.Tensor
    sources: int
    transposed: Transposed | None = None


Gradient = Callable[[torch.Tensor, Entries], torch.Tensor]
"""Of the table, from the result's gradient."""


class GatherMean:
    """An aggregation: table [m, D], idx [E], indptr [n + 1] -> the mean of each row's entries [n, D].

    An ordinary call goes to the kernel directly: the dispatch of a `torch.library` operator written in Python takes
    longer than the kernel. Under `torch.compile` and with tensor subclasses, as in tracing, it goes to the operator.

    Attributes:
        dtype: of the table; the kernel takes no other.
        note: how it runs on this machine.
        ordered: the gradient is added up in one order, by the transposed graph.
    """

    def __init__(self, forward: Source, backward: Source | None = None, *, deterministic: bool = False) -> None:
        """Plug kernels in.

        Args:
            deterministic: the gradient must be added up in one order; where no kernel is named, torch does so.

        Raises:
            UsageError: a kernel is none for its place, or its gradient is in no fixed order and must be.
        """
        self._runner = KernelRunner(forward)
        _check_names(self._runner, (_FORWARD,), "gather_mean")
        self.dtype: torch.dtype = getattr(torch, self._runner.shapes.inputs[0].dtype)
        self._backward = plug(backward) if backward else None
        if self._backward:
            _check_names(self._backward.runner, (_BACKWARD, _DETERMINISTIC), "gather_mean_backward")
            self._check_dtypes(self._backward.runner)
        self.ordered = _reads_transposed(self._backward.runner) if self._backward else deterministic
        if deterministic and not self.ordered:
            assert backward is not None
            raise UsageError(
                f"{backward.label} adds up its gradient with atomics, in no fixed order: name a kernel of "
                "gather_mean_backward_deterministic, or none, or choose gradient any."
            )
        own = ordered_gradient if self.ordered else torch_gradient
        self._gradient = _gradient_by(self._backward.runner, self._backward.operator) if self._backward else own
        self._operator = self._define()
        self._function = mean_function(lambda *given: self._runner(*given)[0], self._gradient, self._direct())
        self._try()

    @property
    def note(self) -> str:
        """Say in a line how calls run on this machine."""
        gradient = f"gradient: {self._backward.note}" if self._backward else "gradient by torch"
        return f"{self._runner.note}; {gradient}"

    def __call__(
        self, table: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor, transposed: Transposed | None = None
    ) -> torch.Tensor:
        if torch.compiler.is_compiling() or type(table) is not torch.Tensor:
            result: torch.Tensor = self._operator(table, idx, indptr)
        elif torch.is_grad_enabled() and table.requires_grad:
            result = self._function(table, idx, indptr, transposed if self.ordered else None)
        else:
            result = self._runner(table, idx, indptr)[0]
        return result

    def _define(self) -> CustomOpDef:
        def keep(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:  # noqa: ANN401 - torch's
            ctx.save_for_backward(inputs[1], inputs[2])
            ctx.sources = inputs[0].shape[0]

        def gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # noqa: ANN401 - torch's
            idx, indptr = ctx.saved_tensors
            return self._gradient(grad, Entries(idx, indptr, ctx.sources)), None, None

        operator = define(self._runner, f"gather_mean_{self._runner.source.candidate[:10]}", self._runner)
        operator.register_autograd(gradient, setup_context=keep)
        return operator

    def _direct(self) -> Gradient:
        """Return the gradient whose kernel is called without the dispatcher."""
        if not self._backward:
            return self._gradient
        kernel = self._backward.runner
        return _gradient_by(kernel, lambda *tensors, **numbers: kernel(*tensors, **numbers)[0])

    def _check_dtypes(self, backward: KernelRunner) -> None:
        grad = backward.shapes.inputs[0].dtype
        if getattr(torch, grad) is not self.dtype:
            raise UsageError(
                f"{self._runner.source.label} computes in {self.dtype}, and {backward.source.label} takes gradients of "
                f"torch.{grad}: choose a backward kernel of the same dtype."
            )

    def _try(self) -> None:
        """Compare with torch on a small graph, forward and backward: names do not say what a kernel computes."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        width = self._runner.shapes.inputs[0].shape[1]
        draw = torch.Generator().manual_seed(0)
        table = torch.randn(11, width, generator=draw).to(device, self.dtype)
        idx = torch.randint(0, 11, (23,), generator=draw).to(device)
        indptr = torch.tensor([0, 4, 4, 5, 17, 23], device=device)
        grad = torch.randn(5, width, generator=draw).to(device, self.dtype)
        want = F.embedding_bag(idx, table.float(), indptr, mode="mean", include_last_offset=True)
        self._compare(self._runner, self(table, idx, indptr), want)
        if self._backward:
            entries = Entries(idx, indptr, 11)
            want = torch_gradient(grad.float(), entries)
            self._compare(self._backward.runner, self._gradient(grad, entries), want)

    def _compare(self, runner: KernelRunner, got: torch.Tensor, want: torch.Tensor) -> None:
        allowed = _ERROR_UNITS * torch.finfo(self.dtype).eps * float(want.abs().max())
        error = float((got.float() - want).abs().max())
        if not error <= allowed:
            raise UsageError(
                f"{runner.source.label} does not compute what its place needs: on a small graph it differs from torch "
                f"by {error:.3g} (allowed {allowed:.3g}). Its problem is {runner.source.problem.name}."
            )


def gather_mean_of(store: Store, name: str, *, deterministic: bool = False) -> GatherMean:
    """Return the aggregation of a session's kernel: "SESSION.STEP", or "FORWARD+BACKWARD" with a kernel for each.

    Args:
        deterministic: its gradient must be added up in one order.

    Raises:
        UsageError: there is no such kernel, it did not pass, or it computes something else.
    """
    forward, plus, backward = name.partition("+")
    return GatherMean(
        read_step(store, forward), read_step(store, backward) if plus else None, deterministic=deterministic
    )


def torch_gradient(grad: torch.Tensor, entries: Entries) -> torch.Tensor:
    """Compute the table's gradient with torch's own operations."""
    idx, shares = entries.idx, _shares(grad, entries.indptr)
    rows = torch.repeat_interleave(entries.indptr.diff(), output_size=idx.shape[0])
    return grad.new_zeros(entries.sources, grad.shape[1]).index_add_(0, idx, shares.index_select(0, rows))


def ordered_gradient(grad: torch.Tensor, entries: Entries) -> torch.Tensor:
    """Compute the table's gradient with torch's own operations in one order, by the transposed graph."""
    users, starts = entries.transposed or transpose(entries)
    return F.embedding_bag(users, _shares(grad, entries.indptr), starts, mode="sum", include_last_offset=True)


def _shares(grad: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Return of each row the gradient that each of its entries gets."""
    return grad / indptr.diff().clamp(min=1).unsqueeze(1).to(grad.dtype)


def transpose(entries: Entries) -> Transposed:
    """Sort the transposed graph out of the rows."""
    idx, indptr, sources, _ = entries
    rows = torch.repeat_interleave(indptr.diff(), output_size=idx.shape[0])
    ordered, places = torch.sort(idx, stable=True)
    starts = torch.searchsorted(ordered, torch.arange(sources + 1, device=idx.device))
    return rows.index_select(0, places), starts


def mean_function(
    means: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor], gradient: Gradient, direct: Gradient
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Transposed | None], torch.Tensor]:
    """Make an aggregation a node of autograd's graph.

    Args:
        gradient: for a gradient of the gradient: autograd sees its operations.
        direct: the same, called without the dispatcher.
    """

    class PluggedGatherMean(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - torch's
            table, idx, indptr, *transposed = given
            ctx.save_for_backward(idx, indptr, *transposed)
            ctx.sources = table.shape[0]
            return means(table, idx, indptr)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401 - torch's
            idx, indptr, *transposed = ctx.saved_tensors
            # For a gradient of the gradient autograd must see the call: the operator refuses it, the runner cannot.
            compute = gradient if torch.is_grad_enabled() else direct
            found = compute(grad, Entries(idx, indptr, ctx.sources, tuple(transposed) or None))
            return found, None, None, *[None for _ in transposed]

    def run(
        table: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor, transposed: Transposed | None
    ) -> torch.Tensor:
        result: torch.Tensor = PluggedGatherMean.apply(table, idx, indptr, *(transposed or ()))  # type: ignore[no-untyped-call]
        return result

    return run


def _reads_transposed(runner: KernelRunner) -> bool:
    return len(runner.shapes.inputs) == len(_DETERMINISTIC)


def _gradient_by(runner: KernelRunner, run: Callable[..., torch.Tensor]) -> Gradient:
    """Return the gradient by the runner's kernel, called by `run`."""

    def in_order(grad: torch.Tensor, entries: Entries) -> torch.Tensor:
        return run(grad, *(entries.transposed or transpose(entries)), entries.indptr)

    def with_atomics(grad: torch.Tensor, entries: Entries) -> torch.Tensor:
        return run(grad, entries.idx, entries.indptr, sources=entries.sources)

    return in_order if _reads_transposed(runner) else with_atomics


def _check_names(runner: KernelRunner, allowed: Sequence[tuple[str, ...]], what: str) -> None:
    names = tuple(spec.name for spec in runner.shapes.inputs)
    if names not in allowed or len(runner.shapes.outputs) != 1:
        wanted = " or ".join(f"({', '.join(each)})" for each in allowed)
        raise UsageError(
            f"{runner.source.label} takes ({', '.join(names)}): it is no kernel of {what}, which takes {wanted}."
        )
