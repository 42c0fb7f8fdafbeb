"""Record what a reference does with complex tensors as operations on their real and imaginary parts.

A complex tensor of a trace is a `Parts`: no operation on it is recorded, but those on its two parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_DTYPES = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}


class Parts(Tensor):
    """A complex tensor that has no memory, but two real tensors of its shape."""

    re: Tensor
    im: Tensor

    @staticmethod
    def __new__(cls: type[Parts], re: Tensor, im: Tensor) -> Parts:
        if re.dtype not in _DTYPES:
            raise NotImplementedError(f"no rule for {re.dtype} numbers of an operation that has none itself, as an FFT")
        made: Parts = Tensor._make_wrapper_subclass(cls, re.shape, dtype=_DTYPES[re.dtype], device=re.device)
        made.re, made.im = re, im
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: object) -> object:  # noqa: ANN401 - an overload
        raise NotImplementedError(f"no rule for {func} of complex numbers")


class _Pair(NamedTuple):
    """The parts of an operand; `im` is None where it is real."""

    re: Any
    im: Any


def call_on_parts(func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """Return what a call makes of the parts of its complex operands; None where it has and makes none.

    Raises:
        NotImplementedError: nothing is known about this function of complex numbers.
    """
    name = _name(func)
    if name in _MAKERS:
        return _MAKERS[name](*args, **kwargs)
    if name in _CONVERTED and _complex_dtype(name, args, kwargs):
        return _joined(_pair(args[0]))
    if not any(_is_complex(leaf) for arg in (*args, *kwargs.values()) for leaf in _leaves(arg)):
        return None
    if _writes(func):
        raise NotImplementedError(f"no rule for {name} in place of complex numbers")
    if name in _ARITHMETIC:
        return _joined(_ARITHMETIC[name](*map(_pair, args), **kwargs))
    if name in _OF_PARTS:
        return _OF_PARTS[name](*args, **kwargs)
    if name in _ALIKE:
        return _alike(func, args, kwargs)
    if name in _ASKED:
        return None
    raise NotImplementedError(f"no rule for {name} of complex numbers")


def _name(func: Callable[..., object]) -> str:
    """Return a function's name: of an operator `a * b`, "mul"; of a property, its own."""
    name: str = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return name.strip("_")


def _writes(func: Callable[..., object]) -> bool:
    """Return whether a method writes to its operand (`z.mul_(w)`); an operator, `z *= w`, binds a name anew."""
    name: str = getattr(func, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def _complex_dtype(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a tensor is converted to a complex dtype, whose precision is that of the tensor."""
    given = [one for one in (*args[1:], *kwargs.values()) if isinstance(one, torch.dtype)]
    return name == "cfloat" or any(dtype.is_complex for dtype in given)


def _leaves(arg: object) -> Sequence[object]:
    return arg if isinstance(arg, list | tuple) else (arg,)


def _is_complex(value: object) -> bool:
    return isinstance(value, Parts | complex)


def _pair(value: Any) -> _Pair:  # noqa: ANN401 - an operand
    if isinstance(value, Parts):
        return _Pair(value.re, value.im)
    if isinstance(value, complex):
        return _Pair(value.real, value.imag)
    return _Pair(value, None)


def _joined(pair: _Pair) -> Tensor:
    re, im = pair
    if im is None:
        im = torch.zeros_like(re)
    elif not isinstance(re, Tensor):
        re = torch.full_like(im, re)
    elif not isinstance(im, Tensor):
        im = torch.full_like(re, im)
    re, im = torch.broadcast_tensors(re, im)  # type: ignore[no-untyped-call]
    return Parts(re, im)


def _view_as_complex(x: Tensor) -> Tensor:
    return Parts(x[..., 0], x[..., 1])


def _polar(abs: Tensor, angle: Tensor) -> Tensor:
    return Parts(abs * torch.cos(angle), abs * torch.sin(angle))


def _add(a: _Pair, b: _Pair, alpha: float = 1) -> _Pair:
    b = b if alpha == 1 else _Pair(alpha * b.re, None if b.im is None else alpha * b.im)
    im = b.im if a.im is None else a.im if b.im is None else a.im + b.im
    return _Pair(a.re + b.re, im)


def _negative(a: _Pair) -> _Pair:
    return _Pair(-a.re, None if a.im is None else -a.im)


def _conjugate(a: _Pair) -> _Pair:
    return _Pair(a.re, -a.im)


def _subtract(a: _Pair, b: _Pair, alpha: float = 1) -> _Pair:
    return _add(a, _negative(b), alpha)


def _bilinear(product: Callable[[Any, Any], Any]) -> Callable[[_Pair, _Pair], _Pair]:
    def multiply(a: _Pair, b: _Pair) -> _Pair:
        if a.im is None:
            return _Pair(product(a.re, b.re), product(a.re, b.im))
        if b.im is None:
            return _Pair(product(a.re, b.re), product(a.im, b.re))
        return _Pair(product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re))

    return multiply


_multiply, _matmul = _bilinear(lambda a, b: a * b), _bilinear(torch.matmul)


def _divide(a: _Pair, b: _Pair) -> _Pair:
    """Divide by numbers of which the larger part is 1, so that no square overflows."""
    if b.im is None:
        return _Pair(a.re / b.re, a.im / b.re)
    whole = _joined(b)
    assert isinstance(whole, Parts)
    scale = torch.maximum(whole.re.abs(), whole.im.abs())
    re, im = whole.re / scale, whole.im / scale
    over = (re * re + im * im) * scale
    made = _multiply(a, _Pair(re, -im))
    return _Pair(made.re / over, (0 * made.re if made.im is None else made.im) / over)


def _exp(a: _Pair) -> _Pair:
    size = torch.exp(a.re)
    return _Pair(size * torch.cos(a.im), size * torch.sin(a.im))


def _power(a: _Pair, b: _Pair) -> _Pair:
    if b != _Pair(2, None):
        raise NotImplementedError("no rule for powers of complex numbers other than squares")
    return _multiply(a, a)


def _alike(func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """Call a linear function, or one that moves elements, on both parts."""

    def of(part: str) -> object:
        def taken(arg: Any) -> Any:  # noqa: ANN401
            if isinstance(arg, list | tuple) and any(isinstance(one, Parts) for one in arg):
                return [getattr(one, part) for one in arg]
            return getattr(arg, part) if isinstance(arg, Parts) else arg

        return func(*map(taken, args), **{name: taken(value) for name, value in kwargs.items()})

    re, im = of("re"), of("im")
    if isinstance(re, Tensor) and isinstance(im, Tensor):
        return Parts(re, im)
    assert isinstance(re, list | tuple)
    assert isinstance(im, list | tuple)
    return type(re)(Parts(a, b) for a, b in zip(re, im, strict=True))


_MAKERS: Mapping[str, Callable[..., Tensor]] = {
    "view_as_complex": _view_as_complex, "polar": _polar, "complex": lambda real, imag: Parts(real, imag),
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[..., _Pair]] = {
    "add": _add, "radd": _add, "sub": _subtract, "subtract": _subtract, "rsub": lambda a, b: _subtract(b, a),
    "mul": _multiply, "multiply": _multiply, "rmul": _multiply, "imul": _multiply, "iadd": _add, "isub": _subtract,
    "div": _divide, "divide": _divide, "true_divide": _divide, "truediv": _divide, "itruediv": _divide,
    "rtruediv": lambda a, b: _divide(b, a), "rdiv": lambda a, b: _divide(b, a),
    "reciprocal": lambda a: _divide(_Pair(1.0, 0.0), a),
    "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "rmatmul": lambda a, b: _matmul(b, a),
    "neg": _negative, "negative": _negative, "conj": _conjugate, "conj_physical": _conjugate,
    "exp": _exp, "square": lambda a: _multiply(a, a), "pow": _power,
}  # fmt: skip
_OF_PARTS: Mapping[str, Callable[..., Tensor]] = {
    "view_as_real": lambda z: torch.stack((z.re, z.im), -1),
    "real": lambda z: z.re, "imag": lambda z: z.im,
    **dict.fromkeys(("abs", "absolute"), lambda z: torch.hypot(z.re, z.im)),
    "angle": lambda z: torch.atan2(z.im, z.re),
    **dict.fromkeys(("resolve_conj", "resolve_neg"), lambda z: z),
}  # fmt: skip
_ALIKE = frozenset({
    "cat", "chunk", "clone", "concat", "contiguous", "cpu", "cuda", "cumsum", "detach", "diagonal", "expand",
    "expand_as", "flatten", "flip", "gather", "getitem", "index_select", "mean", "movedim", "mT", "narrow", "permute",
    "repeat", "repeat_interleave", "reshape", "roll", "select", "split", "squeeze", "stack", "sum", "swapaxes",
    "swapdims", "t", "T", "tile", "transpose", "tril", "triu", "unbind", "unflatten", "unsqueeze", "view",
})  # fmt: skip
"""Linear functions, and those that move elements."""
_CONVERTED = ("cfloat", "to", "type")
_ASKED = frozenset({
    "device", "dim", "dtype", "is_complex", "is_contiguous", "is_cuda", "is_floating_point", "is_leaf", "is_meta",
    "layout", "len", "ndim", "ndimension", "nelement", "numel", "requires_grad", "shape", "size", "stride",
})  # fmt: skip
"""Questions about a tensor that its wrapper answers."""
