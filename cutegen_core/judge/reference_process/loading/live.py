"""Instantiate a reference in the worker: its module, and its tensors by contract name.

1. `instantiate` runs the source (under `FakeTensorMode`, without allocating memory) and calls `get_init_inputs`,
   `Model` and `get_inputs` with the seed set before each, so that equal (source, seed) give equal values.
2. Every tensor gets its contract name (`contract_names`): `forward` arguments, then parameters and buffers. Tensors
   kept as plain attributes become buffers first.
3. `Live.call` runs `forward` on any such set of tensors, for example redrawn inputs or float64 copies.

The module stays in training mode, as KernelBench runs it; only dropout layers are switched off, since no kernel can
reproduce their mask. A parameter whose values are all equal (a norm's weight of ones) is changed to random values, so
that a kernel which ignores it fails.
"""

from __future__ import annotations

import inspect
import linecache
import random
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.func import functional_call
from torch.utils import _pytree as pytree

from cutegen_core.judge.reference_process.drawing import widen
from cutegen_core.judge.reference_process.loading.contract_names import Names, leaf_names, module_numbers
from cutegen_core.judge.reference_process.loading.known_values import KnownValues, needs_values
from cutegen_core.judge.reference_process.loading.nesting import opened
from cutegen_core.judge.reference_process.loading.own_device import on_own_device
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import ITEMSIZE, TensorRole, TensorSpec

_MODULE_NAME = "cutegen_reference"
_LOOKED_AT, _MOST_MOVED = 4096, 1e4
"""Elements of a parameter that show whether somebody drew it, and twice the most by which it is moved."""
_WITHOUT_GRADIENTS = "does not require grad"
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "STATUS_ALLOC_FAILED")
"""Messages of torch, the CUDA runtime and its libraries; they share no exception type for this."""


@dataclass(frozen=True)
class Live:
    """An instantiated reference.

    Attributes:
        tensors: contract name -> value, in the signature's order: inputs, parameters, buffers.
        roles: contract name -> origin of the tensor.
        states: contract name -> dotted name in the module, for parameters and buffers.
        spec: structure of `get_inputs()`'s result; `leaves` fill it, with a placeholder for each tensor.
        scalars: plain numbers of the module and of `get_inputs`.
        complex_names: of the tensors that are complex in the module; here they are real, with a last dimension of two.
    """

    model: torch.nn.Module
    tensors: Mapping[str, torch.Tensor]
    roles: Mapping[str, TensorRole]
    states: Mapping[str, str]
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec
    scalars: Mapping[str, int | float | bool]
    origin: str
    complex_names: frozenset[str] = frozenset()

    def call(self, tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run `forward` on these tensors and return its tensor outputs; errors of the file's code pass through.

        Raises:
            ProblemError: it returns no tensor, or something else that should be compared.
        """
        tensors = dict(tensors) | {
            name: torch.view_as_complex(tensors[name].contiguous()) for name in self.complex_names
        }
        args, kwargs = self.arguments(tensors)
        state = {dotted: tensors[name] for name, dotted in self.states.items()}
        with on_own_device() if torch.get_default_device().type == "cpu" else nullcontext():
            result = functional_call(self.model, state, args, kwargs)
        leaves = pytree.tree_leaves(opened(result, f"{self.origin}: forward returns"))
        outputs = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
        if not outputs:
            raise ProblemError(f"{self.origin}: forward returns no tensor, so there is nothing to compare.")
        numbers = [leaf for leaf in leaves if isinstance(leaf, int | float | complex)]
        if numbers:
            raise ProblemError(
                f"{self.origin}: forward returns the number {numbers[0]} among its tensors, which no kernel writes and "
                "nothing compares: return a tensor, or leave it out."
            )
        if any(t.is_meta for t in outputs) and not any(t.is_meta for t in tensors.values()):
            raise ProblemError(f"{self.origin}: forward returns a tensor on meta, which has no values to compare.")
        return outputs

    def arguments(self, tensors: Mapping[str, torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments of `forward`, nested as `get_inputs` nests them."""
        leaves = [tensors[leaf.name] if isinstance(leaf, _TensorPlace) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the inputs of the signature."""
        return tuple(tensor_spec(name, t, self.roles[name], self.origin) for name, t in self.tensors.items())


@dataclass(frozen=True)
class _TensorPlace:
    """Placeholder for a tensor among `get_inputs()`'s leaves."""

    name: str


def instantiate(source: str, origin: str, seed: int = 0) -> Live:
    """Run the source and build its model and inputs; they are fake tensors under a `FakeTensorMode`.

    Raises:
        ProblemError: the file's own code raised; the text carries its line.
    """
    try:
        return _instantiate(source, origin, seed)
    except ProblemError as error:
        if not needs_values(error):
            raise
    with KnownValues():  # type: ignore[no-untyped-call]
        try:
            return _instantiate(source, origin, seed)  # it reads values, perhaps of short ranges only
        except ProblemError as error:
            if not needs_values(error):
                raise
        return _instantiate(source, origin, seed, real_model=True)


def _instantiate(source: str, origin: str, seed: int, *, real_model: bool = False) -> Live:
    """Run the source.

    Args:
        real_model: the model is made with values, which its code reads as `trunc_normal_` does; its tensors are fake
            from then on.
    """
    try:
        with on_own_device():
            with unset_fake_temporarily() if real_model else nullcontext() as fake:
                module = _execute(source, origin)
                init = list(getattr(module, "get_init_inputs", list)())
                _seed(seed)
                model = module.Model(*init) if not _is_keywords(init) else module.Model(*init[0], **init[1])
            if isinstance(fake, FakeTensorMode) and isinstance(model, torch.nn.Module):
                _register_tensors(model)
                model._apply(fake.from_tensor)  # type: ignore[no-untyped-call]
            _seed(seed + 1)
            given = module.get_inputs()
    except BaseException as error:
        raise ProblemError(describe(error, origin)) from error
    if not isinstance(model, torch.nn.Module):
        raise ProblemError(f"{origin}: Model is not a torch.nn.Module.")
    return _live(model, given, origin)


def describe(error: BaseException, origin: str) -> str:
    """Describe an error raised by the file's code, with the file's line."""
    if isinstance(error, ProblemError):
        return str(error)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == code_name(origin)]
    where = f"{origin}:{lines[-1]}" if lines else origin
    text = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, ModuleNotFoundError):
        return f"{where}: needs the module {error.name!r}, which is not installed here."
    if out_of_memory(error):
        return f"{where}: ran out of the memory a reference may use: {text or 'MemoryError'}."
    if _WITHOUT_GRADIENTS in text:
        return f"{where}: {text}: forward is called without gradients; compute them in `with torch.enable_grad():`."
    return f"{where}: {type(error).__name__}: {text}"


def out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on the CPU or GPU; such an error says nothing about the file."""
    said = isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    return said or isinstance(error, MemoryError | torch.OutOfMemoryError)


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the contract's name of a tensor's dtype."""
    return str(tensor.dtype).removeprefix("torch.")


def tensor_spec(name: str, tensor: torch.Tensor, role: TensorRole, origin: str) -> TensorSpec:
    """Return the contract's record of a tensor.

    Raises:
        ProblemError: the contract does not support its dtype, layout or device.
    """
    dtype = dtype_name(tensor)
    if dtype not in ITEMSIZE or tensor.is_sparse or tensor.is_quantized:
        known = ", ".join(ITEMSIZE)
        parts = (
            " Return a complex tensor's real and imaginary parts (torch.view_as_real)." if tensor.is_complex() else ""
        )
        raise ProblemError(f"{origin}: tensor {name} is {dtype} ({tensor.layout}); only dense {known} work.{parts}")
    if tensor.device.type not in ("cpu", "meta"):
        raise ProblemError(f"{origin}: tensor {name} is on {tensor.device}; leave the device to the workbench.")
    return TensorSpec(name, dtype, tuple(int(d) for d in tensor.shape), role)


def _execute(source: str, origin: str) -> ModuleType:
    # make inspect.getsource work: some files read their own code, and tracebacks show their lines
    name = code_name(origin)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = ModuleType(_MODULE_NAME)
    module.__file__ = name
    sys.modules[_MODULE_NAME] = module
    _seed(0)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def code_name(origin: str) -> str:
    """Return a name that no file has: torch.compile would open an existing file, which the sandbox forbids."""
    return f"problem {origin}"


def seed_torch(seed: int) -> None:
    """Seed what draws; `torch.manual_seed` also records a stack trace for each device that is not in use (0.3 ms)."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)


def _seed(seed: int) -> None:
    seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


def _is_keywords(init: Sequence[Any]) -> bool:
    """Return whether the arguments have KernelBench's other form, `[args, kwargs]`."""
    return len(init) == 2 and isinstance(init[0], list | tuple) and isinstance(init[1], dict)


def _live(model: torch.nn.Module, given: Any, origin: str) -> Live:  # noqa: ANN401 - whatever the file returns
    _settle(model)
    arguments = opened(_arguments(model, given, origin), f"{origin}: get_inputs() holds")
    leaves, spec = pytree.tree_flatten(arguments)
    names = Names()
    tensors: dict[str, torch.Tensor] = {}
    roles: dict[str, TensorRole] = {}
    states: dict[str, str] = {}
    scalars: dict[str, int | float | bool] = {}
    placed: list[Any] = []
    complex_names: set[str] = set()
    for wanted, leaf in zip(leaf_names(model, arguments), leaves, strict=True):
        placed.append(leaf)
        if isinstance(leaf, torch.Tensor):
            name = names.take(wanted)
            placed[-1] = _TensorPlace(name)
            tensors[name], roles[name] = _as_real(leaf.detach()), TensorRole.INPUT
            complex_names.update([name] if leaf.is_complex() else [])
        elif isinstance(leaf, int | float):
            scalars[names.take(wanted)] = leaf
    for role, pairs in ((TensorRole.PARAMETER, model.named_parameters()), (TensorRole.BUFFER, model.named_buffers())):
        for dotted, tensor in pairs:
            name = names.take(dotted)
            tensors[name], roles[name], states[name] = _as_real(tensor.detach()), role, dotted
            complex_names.update([name] if tensor.is_complex() else [])
    for wanted, value in module_numbers(model):
        scalars.setdefault(names.find_free(wanted), value)
    return Live(model, tensors, roles, states, tuple(placed), spec, scalars, origin, frozenset(complex_names))


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Return a complex tensor's real and imaginary parts, in a last dimension; others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _leave_parameters() -> None:
    """Take the place of what moves a recurrent layer's weights to one buffer of cuDNN's, where nothing that is written
    to them later arrives. cuDNN copies them in each call instead."""


def _register_tensors(model: torch.nn.Module) -> None:
    """Make buffers of tensor attributes."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                delattr(module, name)
                module.register_buffer(name, value.detach(), persistent=False)


def _settle(model: torch.nn.Module) -> None:
    """Switch dropout off, register tensor attributes as buffers, and move what a kernel might leave out or hard-code:
    parameters and buffers that are all one number, such as a bias of zeros or a variance of ones, and parameters of few
    numbers, such as an identity, or of evenly spaced ones."""
    for module in model.modules():
        if type(module).__name__.endswith("Dropout") or "Dropout" in type(module).__mro__[1].__name__:
            module.eval()
        if isinstance(module, torch.nn.RNNBase | torch.nn.MultiheadAttention):
            module.dropout = 0.0
        if isinstance(module, torch.nn.RNNBase):
            vars(module)["flatten_parameters"] = _leave_parameters
    _register_tensors(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if _is_made_up(parameter):
                scale = widen(parameter).abs().max().clamp(1.0, _MOST_MOVED)
                parameter.copy_(widen(parameter) + 0.5 * scale * _moves(parameter))
        for buffer in model.buffers():
            if _is_constant(buffer):  # a variance stays positive, and a small number small
                scale = widen(buffer).abs()
                buffer.copy_(widen(buffer) + torch.where(scale == 0, 0.5, scale) * _moves(buffer))


def _moves(tensor: torch.Tensor) -> torch.Tensor:
    """Return numbers between -0.5 and 0.5, at the tensor's precision."""
    return widen((torch.rand(tensor.shape, device=tensor.device) - 0.5).to(tensor.dtype))


def _is_constant(tensor: torch.Tensor) -> bool:
    """Tell whether all elements of a floating tensor are the same finite number."""
    if not _has_numbers(tensor):
        return False
    wide = widen(tensor)
    return bool(wide.isfinite().all() and (wide == wide.reshape(-1)[0]).all())


def _is_made_up(tensor: torch.Tensor) -> bool:
    """Tell whether a floating tensor has few different finite numbers, or evenly spaced ones: nobody drew these."""
    if not _has_numbers(tensor):
        return False
    some = widen(tensor).detach().reshape(-1)[:_LOOKED_AT].double()
    if not some.isfinite().all():
        return False
    steps = some.diff()
    few = int((some.sort()[0].diff() != 0).sum()) + 1 <= max(1, some.numel() // 2)
    return few or (some.numel() > 2 and torch.allclose(steps, steps[:1].expand_as(steps), rtol=1e-3))


def _has_numbers(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return not isinstance(tensor, FakeTensor) and tensor.numel() > 0 and tensor.is_floating_point()


def _arguments(model: torch.nn.Module, given: Any, origin: str) -> tuple[tuple[Any, ...], dict[str, Any]]:  # noqa: ANN401
    if isinstance(given, dict):
        return (), dict(given)
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if not isinstance(given, list | tuple):
        raise ProblemError(f"{origin}: get_inputs() returns a {type(given).__name__}, not a list of arguments.")
    try:
        inspect.signature(model.forward).bind(*given)
    except TypeError as error:
        raise ProblemError(f"{origin}: get_inputs() does not fit forward: {error}.") from error
    return tuple(given), {}
