"""The reference made alive in the worker: its module, its tensors by contract name, and their values.

1. `instantiate` runs the source (under `FakeTensorMode` nothing is allocated) and calls `get_init_inputs`, `Model` and
   `get_inputs` with the seed set before each, so that (source, seed) always gives the same values.
2. Every tensor gets its contract name (`contract_names`): `forward` arguments, then parameters and buffers. Tensors
   kept as plain attributes become buffers first.
3. `draw` replaces the floating inputs for adversarial workloads (`drawing`).
4. `Live.call` runs `forward` on any such set of tensors, also on their float64 copies.

The module stays in training mode, as KernelBench runs it; only dropout layers are switched off, since no kernel can
reproduce their mask. A parameter whose values are all equal (a norm's weight of ones) is moved off that value, so that
a kernel which ignores it is found out.
"""

from __future__ import annotations

import inspect
import linecache
import random
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.func import functional_call
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cutegen_core.errors import ProblemError
from cutegen_core.judge.contract_names import Names, leaf_names, module_numbers
from cutegen_core.judge.drawing import drawn
from cutegen_core.problem import ITEMSIZE, TensorRole, TensorSpec, Values

_MODULE_NAME = "cutegen_reference"
_NARROWER = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Live:
    """A reference ready to be called.

    Attributes:
        tensors: contract name -> value, in the signature's order: inputs, parameters, buffers.
        roles: where each comes from.
        states: contract name -> dotted name in the module, for parameters and buffers.
        spec: structure of `get_inputs()`'s result, with the tensors' places held by their contract names.
        scalars: plain numbers of the module and of `get_inputs`.
    """

    model: torch.nn.Module
    tensors: Mapping[str, torch.Tensor]
    roles: Mapping[str, TensorRole]
    states: Mapping[str, str]
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec
    scalars: Mapping[str, int | float | bool]
    origin: str

    def call(self, tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """`forward` on these tensors; its tensor outputs in order. Errors of the file's code come as they are."""
        args, kwargs = self.arguments(tensors)
        state = {dotted: tensors[name] for name, dotted in self.states.items()}
        result = functional_call(self.model, state, args, kwargs)
        outputs = tuple(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
        if not outputs:
            raise ProblemError(f"{self.origin}: forward returns no tensor, so there is nothing to compare.")
        return outputs

    def arguments(self, tensors: Mapping[str, torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `forward` is called with: positional and keyword arguments, as `get_inputs` nests them."""
        leaves = [tensors[leaf.name] if isinstance(leaf, _Place) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs

    def specs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the signature."""
        return tuple(tensor_spec(name, t, self.roles[name], self.origin) for name, t in self.tensors.items())


@dataclass(frozen=True)
class _Place:
    """Stands for a tensor among `get_inputs()`'s leaves."""

    name: str


def instantiate(source: str, origin: str, seed: int = 0) -> Live:
    """Runs the source and builds its model and inputs; fake tensors when called under a `FakeTensorMode`.

    Raises:
        ProblemError: the file's own code raised; the text carries its line.
    """
    try:
        module = _execute(source, origin)
        init = list(getattr(module, "get_init_inputs", list)())
        _seed(seed)
        model = module.Model(*init) if not _is_keywords(init) else module.Model(*init[0], **init[1])
        _seed(seed + 1)
        given = module.get_inputs()
    except BaseException as error:
        raise ProblemError(describe(error, origin)) from error
    if not isinstance(model, torch.nn.Module):
        raise ProblemError(f"{origin}: Model is not a torch.nn.Module.")
    return _live(model, given, origin)


def describe(error: BaseException, origin: str) -> str:
    """What the file's code raised, with the file's line."""
    if isinstance(error, ProblemError):
        return str(error)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == _code_name(origin)]
    where = f"{origin}:{lines[-1]}" if lines else origin
    text = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, ModuleNotFoundError):
        return f"{where}: needs the module {error.name!r}, which is not installed here."
    if isinstance(error, MemoryError) or "can't allocate memory" in text:
        return f"{where}: ran out of the memory a reference may use: {text or 'MemoryError'}."
    return f"{where}: {type(error).__name__}: {text}"


def draw(live: Live, values: Values, seed: int) -> Live:
    """The same reference with its floating inputs drawn as the workload says; parameters stay."""
    if values is Values.GIVEN:
        return live
    generator = torch.Generator().manual_seed(seed + 2)
    changed = {
        name: drawn(t, values, generator) if live.roles[name] is TensorRole.INPUT and t.is_floating_point() else t
        for name, t in live.tensors.items()
    }
    return Live(live.model, changed, live.roles, live.states, live.leaves, live.spec, live.scalars, live.origin)


def tensor_spec(name: str, tensor: torch.Tensor, role: TensorRole, origin: str) -> TensorSpec:
    """The contract's record of a tensor; ProblemError for a dtype the contract does not carry."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in ITEMSIZE or tensor.is_sparse or tensor.is_quantized:
        known = ", ".join(ITEMSIZE)
        raise ProblemError(f"{origin}: tensor {name} is {dtype} ({tensor.layout}); only dense {known} work.")
    if tensor.device.type not in ("cpu", "meta"):
        raise ProblemError(f"{origin}: tensor {name} is on {tensor.device}; leave the device to the workbench.")
    return TensorSpec(name, dtype, tuple(int(d) for d in tensor.shape), role)


class Exact(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While this is on, whatever a reference makes in a narrower type, such as by `.float()`, it makes in float64: else
    a file that converts would be compared with rounded values, and would seem to make no error of its own."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        given = dict(kwargs or {})
        if given.get("dtype") in _NARROWER:
            given["dtype"] = torch.float64
        return func(*args, **given)


def upcast(tensor: torch.Tensor) -> torch.Tensor:
    """A float64 copy of a floating tensor, a plain copy of any other."""
    return tensor.detach().to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.detach().clone()


def to_bytes(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Raw little-endian values in row-major order."""
    array: np.ndarray[Any, np.dtype[np.uint8]] = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return array


def write_raw(tensor: torch.Tensor, path: Path) -> None:
    """Writes raw little-endian values; the file is replaced, never changed in place under a reader."""
    partial = path.with_suffix(".part")
    to_bytes(tensor).tofile(partial)
    partial.replace(path)


def read_raw(path: Path, spec: TensorSpec) -> torch.Tensor:
    """The tensor of a raw file; ProblemError when its length is not the spec's."""
    data = np.fromfile(path, dtype=np.uint8)
    if data.size != spec.nbytes:
        raise ProblemError(f"{path.name} holds {data.size} bytes, {spec.name} needs {spec.nbytes}.")
    if not data.size:  # no bytes can be viewed as anything
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
    return torch.from_numpy(data).view(getattr(torch, spec.dtype)).reshape(spec.shape)


def _execute(source: str, origin: str) -> ModuleType:
    # inspect.getsource must work inside: some files look at their own code, and tracebacks show their lines
    name = _code_name(origin)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = ModuleType(_MODULE_NAME)
    module.__file__ = name
    sys.modules[_MODULE_NAME] = module
    _seed(0)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def _code_name(origin: str) -> str:
    """Names no file: torch.compile opens the file of what it compiles when there is one, and here it may not."""
    return f"problem {origin}"


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


def _is_keywords(init: Sequence[Any]) -> bool:
    """KernelBench also allows `[args, kwargs]`."""
    return len(init) == 2 and isinstance(init[0], list | tuple) and isinstance(init[1], dict)


def _live(model: torch.nn.Module, given: Any, origin: str) -> Live:  # noqa: ANN401 - whatever the file returns
    _settle(model)
    arguments = _arguments(model, given, origin)
    leaves, spec = pytree.tree_flatten(arguments)
    names = Names()
    tensors: dict[str, torch.Tensor] = {}
    roles: dict[str, TensorRole] = {}
    states: dict[str, str] = {}
    scalars: dict[str, int | float | bool] = {}
    placed: list[Any] = []
    for wanted, leaf in zip(leaf_names(model, arguments), leaves, strict=True):
        placed.append(leaf)
        if isinstance(leaf, torch.Tensor):
            name = names.take(wanted)
            placed[-1] = _Place(name)
            tensors[name], roles[name] = leaf.detach(), TensorRole.INPUT
        elif isinstance(leaf, int | float):
            scalars[names.take(wanted)] = leaf
    for role, pairs in ((TensorRole.PARAMETER, model.named_parameters()), (TensorRole.BUFFER, model.named_buffers())):
        for dotted, tensor in pairs:
            name = names.take(dotted)
            tensors[name], roles[name], states[name] = tensor.detach(), role, dotted
    for wanted, value in module_numbers(model):
        scalars.setdefault(names.free(wanted), value)
    return Live(model, tensors, roles, states, tuple(placed), spec, scalars, origin)


def _settle(model: torch.nn.Module) -> None:
    """Dropout off, plain tensor attributes registered as buffers, constant parameters moved off their constant."""
    for module in model.modules():
        if type(module).__name__.endswith("Dropout") or "Dropout" in type(module).__mro__[1].__name__:
            module.eval()
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                delattr(module, name)
                module.register_buffer(name, value.detach(), persistent=False)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and _is_constant(parameter):
                parameter.add_((torch.rand(parameter.shape) - 0.5).to(parameter.dtype), alpha=0.5)


def _is_constant(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor) or tensor.numel() == 0:
        return False
    return bool((tensor == tensor.reshape(-1)[0]).all())


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
