"""Run a reference in float64, and note what it does on the way that PyTorch, or float32, leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cutegen_core.judge.reference_process.modes.each_operation import EachOperation
from cutegen_core.judge.reference_process.modes.other_choices import is_open
from cutegen_core.judge.small_floats import FLOAT8

TORCH_FLOAT8 = {getattr(torch, name): one for name, one in FLOAT8.items()}
"""torch's 8-bit floats, each with its format."""
_NARROWER = (torch.float32, torch.float16, torch.bfloat16, *TORCH_FLOAT8)
_SEARCHES: Mapping[str, int] = {"searchsorted": 0, "bucketize": 1}
"""Operations that search sorted numbers, and which operand these are."""
_CONVERSIONS = ("_to_copy", "copy_")
_SQUARED: Mapping[str, str] = {
    "std": "standard deviation", "std_mean": "standard deviation", "var": "variance", "var_mean": "variance",
    "linalg_vector_norm": "norm", "native_layer_norm": "layer norm", "native_group_norm": "group norm",
    "native_batch_norm": "batch norm", "_native_batch_norm_legit": "batch norm",
}  # fmt: skip
"""Operations that add up squares: a CPU may do that in float64, and a GPU does not."""
_FACTORS: Mapping[str, str] = {"prod": "product", "cumprod": "cumulative product"}
"""Operations that multiply the numbers of a row: a CPU may do that in float64, too."""
_MOST_BITS, _FAR_UP = 127.0, 60.0
"""Powers of two: what float32 holds up and down, and how far a product comes back that has lost digits below it."""
_SUMS = (*_SQUARED, "sum", "nansum", "mean", "cumsum", "_softmax", "_log_softmax", "logsumexp")
_MULTIPLIED = ("mm", "mv", "dot", "convolution", "cdist", "lstm", "gru", "rnn")
"""Parts of the names of operations that add up products: TF32 may spoil these as little as a long sum errs."""
_MATRIX_AT = {**dict.fromkeys(("mm", "bmm", "mv", "dot"), 0), **dict.fromkeys(("addmm", "baddbmm", "addmv"), 1)}
"""Products of matrices, and which operand has rows as long as the sums."""
_VERY_LONG = 1 << 16
"""Products that add up to so much rounding that a sum of them in sequence errs more than TF32."""
_TAKES_NAN_AWAY = ("nan_to_num", "nansum", "nanmedian", "isnan", "isfinite", "fmax", "fmin")
_COMPARES = ("ne", "eq")
"""Of a number and itself they tell whether it is NaN."""


class Exact(EachOperation):  # type: ignore[no-untyped-call]
    """Replaces every narrower floating type that a reference asks for, such as by `.float()`, by float64.

    Otherwise a file that converts would be compared with rounded values and would seem to make no error of its own.
    """

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        if kwargs.get("dtype") in _NARROWER:
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


class NotedExact(Exact):  # type: ignore[no-untyped-call]
    """Notes what the reference does that PyTorch leaves open.

    Args:
        narrow: the reference computes in float32.

    Attributes:
        undefined, chooses, takes_nan_away: as in `Expected`.
        overflows8: it converts to 8-bit floats what is more than these hold, which saturates, or becomes NaN or
            infinity.
    """

    def __init__(self, *, narrow: bool) -> None:
        super().__init__()
        self.undefined, self.chooses, self.overflows8, self.takes_nan_away = "", False, False, False
        self._most_added, self._most_products, self._multiplies = 0, 0, False
        self._narrow = narrow

    @property
    def adds_up(self) -> bool:
        """Return whether it adds up numbers or products."""
        return self._multiplies or self._most_added > 0

    @property
    def longest_sum(self) -> int:
        """Return the elements of the longest sum, as in `Expected`."""
        if not self._multiplies:
            return self._most_added
        return self._most_products if self._most_products >= _VERY_LONG else 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        made, name = super().call(func, args, kwargs), func.__name__.partition(".")[0]
        self._note_kind(name, args)
        self.chooses |= is_open(func, kwargs)
        self.overflows8 |= _overflows_8_bits(kwargs.get("dtype"), args[0] if args else None)
        if name in _CONVERSIONS and isinstance(made, torch.Tensor):
            source = args[1 if made is args[0] else 0]  # copy_ has it second
            if isinstance(source, torch.Tensor) and not _can_hold(made.dtype, source):
                self.undefined = "the reference makes whole numbers of what these cannot hold, NaN or too much"
        if name in _SEARCHES and not _is_sorted(args[_SEARCHES[name]]):
            self.undefined = f"{name} is given numbers that are not sorted"
        if self._narrow and _SQUARED.get(name) and isinstance(args[0], torch.Tensor):
            squares = _squares(name, made, args)
            if squares > torch.finfo(torch.float32).max:
                self.undefined = f"the squares of a {_SQUARED[name]} are more than float32 holds"
            elif 0 < squares < torch.finfo(torch.float32).tiny:
                self.undefined = f"the squares of a {_SQUARED[name]} are less than float32 holds"
        if self._narrow and name in _FACTORS and isinstance(args[0], torch.Tensor) and _leaves_range(*args):
            self.undefined = f"on its way a {_FACTORS[name]} is more or less than float32 holds"
        return made

    def _note_kind(self, name: str, args: tuple[Any, ...]) -> None:
        if name in _SUMS and isinstance(args[0], torch.Tensor):
            self._most_added = max(self._most_added, *args[0].shape, 1)
        self._multiplies |= any(word in name for word in _MULTIPLIED)
        if name in _MATRIX_AT:
            self._most_products = max(self._most_products, args[_MATRIX_AT[name]].shape[-1])
        compared = name in _COMPARES and len(args) > 1 and args[0] is args[1]
        self.takes_nan_away |= name in _TAKES_NAN_AWAY or compared


def _is_sorted(numbers: object) -> bool:
    return not isinstance(numbers, torch.Tensor) or bool((numbers.diff(dim=-1) >= 0).all())


def _can_hold(dtype: torch.dtype, numbers: torch.Tensor) -> bool:
    """Return whether a dtype has these numbers once what follows the point is cut off; PyTorch wraps those of uint8."""
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool or not numbers.is_floating_point():
        return True
    most = float(torch.iinfo(torch.int64 if dtype is torch.uint8 else dtype).max) + 1
    return bool(((numbers > -most - 1) & (numbers < most)).all())


def _overflows_8_bits(dtype: object, source: object) -> bool:
    """Return whether a conversion to this dtype is one to 8-bit floats, of numbers beyond the largest."""
    if dtype not in TORCH_FLOAT8 or not isinstance(source, torch.Tensor):
        return False
    return bool((source.double().abs() >= TORCH_FLOAT8[dtype].overflows_from).any())


def _squares(name: str, made: object, args: tuple[object, ...]) -> float:
    """Return the largest finite sum of squares that an operation adds up; 0 if there is none."""
    found = made if isinstance(made, torch.Tensor) else made[-1 if "native" in name else 0]  # type: ignore[index]
    of = args[0]
    assert isinstance(found, torch.Tensor)
    assert isinstance(of, torch.Tensor)
    if name == "linalg_vector_norm" and args[1:2] not in ((), (2,)):
        return 0.0
    if "native" in name:  # it gives one over the root of the variance, or nothing where it is told the variance
        found = found.reciprocal().nan_to_num(nan=0.0, posinf=torch.finfo(torch.float64).max)
    finite = found[torch.isfinite(found)]
    if not finite.numel():
        return 0.0
    largest = float(finite.max())
    return (largest if name.startswith("var") else largest * largest) * of.numel() / found.numel()


def _leaves_range(factors: torch.Tensor, dim: int | None = None, *_: object) -> bool:
    """Return whether the product of factors that follow one another is beyond float32, in front of others or behind.

    The logarithm of such a product is a difference of two sums from the first factor on.
    """
    if not (factors.is_floating_point() and factors.numel()):
        return False
    rows = factors.double().flatten() if dim is None else factors.double().movedim(dim, -1)
    logs = torch.where(torch.isfinite(rows) & (rows != 0), rows, 1.0).abs().log2()
    sums = torch.nn.functional.pad(logs.cumsum(-1), (1, 0))
    up, down = (sums - sums.cummin(-1).values).amax(), (sums.cummax(-1).values - sums).amax()
    back = 0.0 if bool(torch.isinf(rows).any()) else _FAR_UP  # nothing times infinity is NaN
    return bool(up > _MOST_BITS or (down > _MOST_BITS and up >= back))
