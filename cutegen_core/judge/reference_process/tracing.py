"""Trace a reference on fake tensors: its signature and graph, without allocating memory, however large the sizes.

The graph is traced before dispatch, so operations stay at the level at which the reference wrote them: `op` without
overload, operands positional as traced, defaults left out. `F.gelu` and `nn.GELU` give the same aten.gelu (with kwarg
approximate="tanh"), aten.add may carry kwarg alpha, aten.max(x, dim) is followed by "getitem" nodes with args (Ref, 0)
and (Ref, 1). `records.operations` says what the operations do.

An operation of `_COMPOSED` is traced as the operations that PyTorch makes it of: nobody has rules for it as a whole.
An operation in place keeps its underscore ("aten.relu_"); what the reference does with its operand afterwards refers to
its result, but a view of the operand that was taken before does not. A constant tensor made inside `forward` is a
"constant" node; one of few elements has its values in `Graph.constants`.

What `torch.vmap` and `torch.func` transform is known after dispatch only: such a reference is traced there.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from cutegen_core.judge.reference_process.forwards import Cost, Forward, ForwardCall, LongForwardError
from cutegen_core.judge.reference_process.loading.fake_modules import converted_anew
from cutegen_core.judge.reference_process.loading.live import (
    Live,
    code_name,
    describe,
    dtype_name,
    instantiate,
    tensor_spec,
)
from cutegen_core.judge.reference_process.modes import recurrent_layers
from cutegen_core.judge.reference_process.modes.checks import past_checks
from cutegen_core.judge.reference_process.modes.each_operation import EachOperation
from cutegen_core.judge.reference_process.modes.every_slice import EverySlice
from cutegen_core.judge.reference_process.modes.in_other_words import FixedBins, InOtherWords
from cutegen_core.judge.reference_process.modes.other_choices import is_open
from cutegen_core.records import operations
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec

_MOST_NUMBERS = 64
"""Elements of a constant tensor that a graph tells."""
_COMPOSED = (
    "cumulative_trapezoid", "diagflat", "frobenius_norm", "gradient", "linalg_vecdot", "max_unpool2d", "max_unpool3d",
    "mvlgamma", "nanquantile", "native_channel_shuffle", "norm_except_dim", "pad_sequence", "row_stack",
    "special_multigammaln", "special_ndtr",
)  # fmt: skip
_OF_DISPATCH = (
    "_backward", "_backward_data", "native_group_norm", "native_layer_norm", "native_batch_norm", "nll_loss_forward",
    "nll_loss2d_forward",
)  # fmt: skip
"""How the names of operations end that dispatch leaves, and that are made of plain operations then."""
_REPEATED = {"expand": 0, "addmm": 0, "baddbmm": 0, "copy_": 1}
"""Operations that are not pointwise, and the operand that they repeat where it is 1."""
_BATCHED = ("bmm", "baddbmm")
_OF_EXPONENTIALS = ("softmax", "logsumexp", "scaled_dot_product", "cross_entropy")
_MOST_CALLS = 20_000
"""How many operations of one forward are followed: each takes a fifth of a millisecond."""
_MODERATE = 1e4
"""Of an operation's numbers, those up to this may be thresholds; others are infinities and ends of slices."""
_WITH_LINES: Mapping[str, Any] = (
    {"record_stack_traces": True} if "record_stack_traces" in inspect.signature(make_fx).parameters else {}
)
"""Older versions of torch cannot tell the lines that operations come from."""


@contextlib.contextmanager
def fake_tensors() -> Iterator[FakeTensorMode]:
    """Give every tensor made inside the block a shape and a dtype, but no memory."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, converted_anew(), FixedBins():
        yield mode


def signature_of(live: Live) -> Signature:
    """Return the signature of an instantiated reference; call it under `fake_tensors` for sizes too large to allocate.

    Raises:
        ProblemError: `forward` failed, or takes or returns a value that is no tensor of a known dtype.
    """
    try:
        with recurrent_layers.WholeRecurrentLayers():
            outputs = live.call({name: t.clone() for name, t in live.tensors.items()})
    except LongForwardError:
        raise
    except Exception as error:
        raise ProblemError(describe(error, live.origin)) from error
    return Signature(live.specs(), output_specs(outputs, live.origin), dict(live.scalars))


def forward_of(live: Live) -> Forward:
    """Return what one forward does.

    Raises:
        ProblemError: the forward failed, or does more than 20,000 operations.
    """
    elements = sum(t.numel() for t in live.tensors.values())
    counting = FlopCounterMode(display=False, custom_mapping={**recurrent_layers.flops_of(), **_OWN_FLOPS})
    counting.mod_tracker = _NoModules()  # type: ignore[assignment]
    with counting as flops, _ElementCounter(live.origin) as counter, EverySlice():
        signature_of(live)
    cost = Cost(elements + counter.elements, int(flops.get_total_flops()))
    return Forward(cost, tuple(counter.calls), counter.chooses)


class _NoModules(contextlib.nullcontext[None]):
    """Takes the place of what counts for each module, and cannot while a forward computes gradients itself."""

    parents = frozenset({"Global"})


def _attention_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:  # noqa: ANN401
    """Return what the two products of attention cost; `FlopCounterMode` knows those of GPUs alone."""
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _convolution_flops(
    x: Sequence[int], weight: Sequence[int], _: object, stride: Sequence[int], *given: Any, out_shape: Sequence[int],  # noqa: ANN401
    **__: Any,  # noqa: ANN401
) -> int:  # fmt: skip
    """Return what a convolution costs that computes one place of the result after the other.

    `FlopCounterMode` counts a transposed one by the places of its input, of which there are fewer where windows are
    large: each place of the result is reached by the taps that its stride leaves.
    """
    transposed = given[2]
    return 2 * x[0] * prod(out_shape[2:]) * prod(weight) // (prod(stride) if transposed else 1)


_OWN_FLOPS: Mapping[Any, Callable[..., int]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    torch.ops.aten.convolution: _convolution_flops,
}


_PAD = torch.ops.aten.constant_pad_nd


class _ElementCounter(EachOperation):  # type: ignore[no-untyped-call]
    """Adds up the elements of every computed tensor, of which views have none, lists the calls, and notes choices."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self.elements = 0
        self.calls: list[ForwardCall] = []
        self.chooses = False

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        result = func(*args, **kwargs)
        self.chooses |= is_open(func, kwargs)
        results = [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]
        if not func.is_view:
            self.elements += sum(one.numel() for one in results)
        extents = tuple(extent for one in results for extent in one.shape)
        repeated = _repeated(func, args, kwargs, result)
        cropped = frozenset(k for k, n in enumerate(args[1]) if n < 0) if func.overloadpacket is _PAD else frozenset()
        self.calls.append(ForwardCall(str(func), repeated, extents, _batches(func, results), cropped))
        if len(self.calls) > _MOST_CALLS:
            raise LongForwardError(
                f"{self._origin}: its forward does more than {_MOST_CALLS:,} operations, in a loop over a size "
                f"maybe: give it smaller ones."
            )
        return result


def _batches(func: Any, results: Sequence[torch.Tensor]) -> int:  # noqa: ANN401
    """Return how many products of matrices an operation is: of those that say so, the extents before the last two."""
    name = func.overloadpacket.__name__
    batched = name in _BATCHED or name.startswith("_scaled_dot_product")
    return prod(results[0].shape[:-2]) if batched else 1


def _repeated(func: Any, args: Any, kwargs: Any, result: Any) -> frozenset[tuple[int, int]]:  # noqa: ANN401
    """Return the operands that an operation repeats, each with the dimension, counted from the last."""
    mask = kwargs.get("attn_mask")
    if isinstance(mask, torch.Tensor):
        operands, whole = [mask], (*args[0].shape[:-1], args[1].shape[-2])
    elif isinstance(result, torch.Tensor):
        operands, whole = _aligned(func, args), tuple(result.shape)
    else:
        return frozenset()
    return frozenset(
        (number, place)
        for number, operand in enumerate(operands)
        for place, (own, full) in enumerate(zip(reversed(operand.shape), reversed(whole), strict=False))
        if own == 1 and full != 1
    )


def _aligned(func: Any, args: Any) -> list[torch.Tensor]:  # noqa: ANN401
    """Return the operands whose dimensions are those of the result, or 1."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if torch.Tag.pointwise in func.tags:
        return tensors
    place = _REPEATED.get(func.overloadpacket.__name__)
    return [] if place is None else tensors[place : place + 1]


def output_specs(outputs: tuple[torch.Tensor, ...], origin: str) -> tuple[TensorSpec, ...]:
    """Return the specs of the outputs: `out`, or `out0`, `out1`, ... for several."""
    names = ["out"] if len(outputs) == 1 else [f"out{i}" for i in range(len(outputs))]
    return tuple(tensor_spec(n, o, TensorRole.OUTPUT, origin) for n, o in zip(names, outputs, strict=True))


@functools.lru_cache(maxsize=32)
def find_constants(source: str, origin: str) -> tuple[float, ...]:
    """Return the numbers of moderate size that operations of a reference are given, with both signs: its thresholds
    are among them."""
    given = (n for node in trace(source, origin).nodes for n in (*node.args, *node.kwargs.values()))
    numbers = {abs(float(n)) for n in given if isinstance(n, int | float) and abs(n) <= _MODERATE}
    return tuple(sign * n for n in sorted(numbers) for sign in (1.0, -1.0))


def weighs_by_exponentials(source: str, origin: str) -> bool:
    """Return whether a reference takes exponentials less the largest of a row, as softmax does."""
    names = [node.op for node in trace(source, origin).nodes]
    of_rows = any(word in name for name in names for word in _OF_EXPONENTIALS)
    return of_rows or ("aten.exp" in names and bool({"aten.amax", "aten.max"} & set(names)))


def adds_up_products(source: str, origin: str) -> bool:
    """Return whether a reference adds up products."""
    return any(operations.traits(node).flow in operations.PRODUCTS for node in trace(source, origin).nodes)


_remembered: dict[tuple[str, str], Graph] = {}


def remember(source: str, origin: str, read: Callable[[], Graph]) -> None:
    """Take what is read as the graph of a reference, which an earlier process has traced; it is read once."""
    if (source, origin) not in _remembered:
        _remembered[source, origin] = read()


@functools.lru_cache(maxsize=8)
def trace(source: str, origin: str) -> Graph:
    """Trace a reference, unless its graph is known; return one without nodes but with the reason if tracing fails."""
    if (known := _remembered.get((source, origin))) is not None:
        return known
    try:
        return _trace(source, origin, pre_dispatch=True)
    except _TransformedError:
        return _trace(source, origin, pre_dispatch=False)


class _TransformedError(Exception):
    """`vmap` or `torch.func` keeps from the trace what it makes of the operations inside of it."""


def _trace(source: str, origin: str, *, pre_dispatch: bool) -> Graph:
    """Trace a reference before dispatch, or after it, where fewer operations are left whole.

    Raises:
        _TransformedError: before dispatch only: some operations were not seen.
    """
    with fake_tensors():
        live = instantiate(source, origin)
        names = list(live.tensors)

        def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with EverySlice(), InOtherWords(), recurrent_layers.WholeRecurrentLayers():
                return live.call(dict(zip(names, tensors, strict=True)))

        try:
            made = make_fx(
                forward, tracing_mode="fake", pre_dispatch=pre_dispatch, _allow_non_fake_inputs=True, **_WITH_LINES,
                decomposition_table=compositions() if pre_dispatch else _compositions_after_dispatch(),
            )  # fmt: skip
            traced = past_checks(lambda: made(*live.tensors.values()), origin)
        except Exception as error:  # noqa: BLE001 - a file that cannot be traced still loads; the reason is the answer
            return Graph(reason=_described(error, origin))
    try:
        graph = _GraphReader(names, code_name(origin)).read(traced)
    except Exception as error:
        if pre_dispatch:
            raise _TransformedError from error
        return Graph(reason=_described(error, origin))
    if pre_dispatch and _is_transformed(traced):
        raise _TransformedError
    return graph


def _is_transformed(traced: fx.GraphModule) -> bool:
    """Return whether a trace has results of operations that it lacks, or says itself that it transforms."""
    kept = (getattr(traced, node.target) for node in traced.graph.find_nodes(op="get_attr"))
    return any(map(_is_unseen, kept)) or any(
        str(getattr(node.target, "__module__", "")).startswith("torch._functorch") for node in traced.graph.nodes
    )


def _is_unseen(constant: object) -> bool:
    """Return whether a constant of a trace is the result of operations that the trace lacks."""
    if not isinstance(constant, torch.Tensor):
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(constant):
        return True
    return isinstance(constant, FakeTensor) and constant.constant is None


_Compositions = dict[torch._ops.OpOverload, Callable[..., object]]


@functools.cache
def compositions() -> _Compositions:
    """Return what makes each overload of `_COMPOSED` of other operations, where this version of PyTorch has it."""
    overloads = [one for one in _overloads(_COMPOSED) if one._overloadname != "out"]
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    return _decompositions(overloads) | {
        one: one.decompose for one in overloads if one.has_kernel_for_dispatch_key(implicit)
    }


@functools.cache
def _compositions_after_dispatch() -> _Compositions:
    """Return those, and what makes gradients, and what else only dispatch leaves, of plain operations."""
    named = [name for name in dir(torch.ops.aten) if name.endswith(_OF_DISPATCH)]
    return _decompositions(_overloads(named)) | compositions()


def _overloads(names: Iterable[str]) -> list[torch._ops.OpOverload]:
    packets = [getattr(torch.ops.aten, name) for name in names if hasattr(torch.ops.aten, name)]
    return [getattr(packet, name) for packet in packets for name in packet.overloads()]


def _decompositions(overloads: Sequence[torch._ops.OpOverload]) -> _Compositions:
    return cast(_Compositions, get_decompositions(overloads))


def _described(error: Exception, origin: str) -> str:
    """Describe what ended a trace; values that decide a shape or a branch in plain words."""
    said = describe(error, origin)
    where = said.partition(": ")[0]
    if isinstance(error, DynamicOutputShapeException):
        name = str(error.func.overloadpacket)
        chosen = "what a mask chooses (x[mask], torch.where(mask), nonzero)"
        returned = f"the shape of {chosen if name == 'aten.nonzero' else f'what {name!r} returns'}"
        return f"{where}: {returned} depends on a tensor's values; keep all elements: torch.where(mask, x, 0)"
    if "tensors used as indices must be" in said:
        return f"{where}: an index that is a mask of bytes, which PyTorch no longer traces; make it a mask of bools"
    if isinstance(error, DataDependentOutputException) or "data is not allocated yet" in said:
        asked = "a number or a branch depends on a tensor's values"
        return f"{where}: {asked}; keep it a tensor (no .item(), float() or int()), and choose by torch.where"
    return said


class _GraphReader:
    """Converts a traced module to plain records."""

    def __init__(self, inputs: list[str], code_name: str) -> None:
        self._inputs = inputs
        self._frame = re.compile(rf'File "{re.escape(code_name)}", line (\d+)')
        self._names: dict[str, str] = {}

    def read(self, traced: fx.GraphModule) -> Graph:
        traced.graph.eliminate_dead_code()
        placeholders = [n for n in traced.graph.nodes if n.op == "placeholder"]
        self._names = {n.name: name for n, name in zip(placeholders, self._inputs, strict=True)}
        taken = set(self._inputs)
        nodes: list[Node] = []
        outputs: tuple[str, ...] = ()
        constants: dict[str, tuple[float, ...]] = {}
        for fx_node in traced.graph.nodes:
            if fx_node.op == "output":
                outputs = tuple(self._names[n.name] for n in fx_node.args[0])
                continue
            if fx_node.target is torch._C._set_grad_enabled:
                continue
            if fx_node.op != "placeholder":
                self._names[fx_node.name] = _fresh(fx_node.name, taken)
            nodes.append(self._node(fx_node))
            if fx_node.op == "get_attr":
                value = _known(getattr(traced, fx_node.target))
                if value is not None:
                    constants[self._names[fx_node.name]] = value
        return Graph(tuple(nodes), outputs, "", constants)

    def _node(self, node: fx.Node) -> Node:
        shape, dtype = _result(node.meta.get("val"))
        args = tuple(self._operand(a) for a in node.args)
        kwargs = {k: self._operand(v) for k, v in node.kwargs.items() if k not in ("device", "pin_memory", "layout")}
        lines = self._frame.findall(node.meta.get("stack_trace") or "")
        line = int(lines[-1]) if lines else 0
        return Node(self._names[node.name], _operation(node), args, kwargs, shape, dtype, line)

    def _operand(self, value: Any) -> Operand:  # noqa: ANN401 - whatever fx records
        if isinstance(value, fx.Node):
            return Ref(self._names[value.name])
        if isinstance(value, list | tuple):
            return tuple(self._operand(v) for v in value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return str(value).removeprefix("torch.")


def _fresh(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _operation(node: fx.Node) -> str:
    if node.op == "placeholder":
        return "input"
    if node.op == "get_attr":
        return "constant"
    if node.target is operator.getitem:
        return "getitem"
    name = getattr(node.target, "overloadpacket", getattr(node.target, "__name__", node.target))
    return recurrent_layers.name_of(str(name))


def _result(value: Any) -> tuple[tuple[int, ...], str]:  # noqa: ANN401
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    if isinstance(value, torch.Tensor):
        return tuple(int(d) for d in value.shape), dtype_name(value)
    return (), type(value).__name__


def _known(value: object) -> tuple[float, ...] | None:
    """Return the numbers of a constant of few elements; None for any other, and for a fake one without values."""
    if not isinstance(value, torch.Tensor) or not 0 < value.numel() <= _MOST_NUMBERS or value.is_complex():
        return None
    constant = value.constant if isinstance(value, FakeTensor) else value
    return None if constant is None else tuple(map(float, constant.reshape(-1).tolist()))
