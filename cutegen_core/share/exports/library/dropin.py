"""A drop-in `.cu`: a host function with the original's signature around the kernel's own launches.

It launches on the current stream (torch) or the stream that it is given, and writes outputs over inputs where the
problem's ALIAS, or the original, says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import TensorSpec
from cutegen_core.share.exports.host_cpp import C_TYPES, number_type
from cutegen_core.share.exports.library.facts import HostFunction, LibraryFacts
from cutegen_core.share.exports.torch_binding import SCALAR_TYPES, among_others, own_scope

_TORCH_HEADERS = """\
#include <torch/all.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
"""

VIEW = """\
namespace cutegen {

inline Tensor view(at::Tensor const& tensor, at::ScalarType dtype, char const* name) {
  TORCH_CHECK(tensor.is_cuda(), name, " must be on a CUDA device");
  TORCH_CHECK(tensor.is_contiguous(), name, " must be contiguous");
  TORCH_CHECK(tensor.scalar_type() == dtype, name, " must be ", dtype, ", not ", tensor.scalar_type());
  return {tensor.data_ptr(), tensor.sizes().vec(), static_cast<std::int64_t>(tensor.element_size())};
}

}  // namespace cutegen
"""


def dropin_file(facts: LibraryFacts) -> str:
    """Return the whole file.

    Raises:
        UsageError: the original function does not take, or does not say the shape of, what the kernel needs.
    """
    return f"{support(facts)}\n{scoped(facts, function(facts))}"


def support(facts: LibraryFacts) -> str:
    """Return everything in front of the host function: the kernel and its launches, in a namespace of their own."""
    return among_others(facts.bundle, f"{_TORCH_HEADERS}\n{VIEW}" if _takes_tensors(facts) else "")


def function(facts: LibraryFacts) -> str:
    """Return the host function."""
    return f"{head(facts)} {{\n{body(facts)}}}\n"


def head(facts: LibraryFacts) -> str:
    """Return the original's return type, name and parameters, or those that follow from the problem."""
    if facts.host:
        return facts.host.head
    bundle = facts.bundle
    written = set(facts.in_place.values())
    tensors = [f"at::Tensor {'' if t.name in written else 'const'}& {t.name}" for t in bundle.signature.inputs]
    numbers = [f"{number_type(value)} {name}" for name, value in bundle.scalars().items()]
    made = facts.made_outputs()
    kind = (
        "void"
        if not made
        else "at::Tensor"
        if len(made) == 1
        else f"std::tuple<{', '.join(['at::Tensor'] * len(made))}>"
    )
    return f"{kind} {bundle.name}({', '.join((*tensors, *numbers)).replace('Tensor &', 'Tensor&')})"


def body(facts: LibraryFacts) -> str:
    """Return the statements of the host function."""
    return "".join(_torch_body(facts) if _takes_tensors(facts) else _raw_body(facts))


def _takes_tensors(facts: LibraryFacts) -> bool:
    return facts.host is None or facts.host.takes_tensors


def scoped(facts: LibraryFacts, text: str) -> str:
    """Put a text into the namespace of the original function."""
    scope = facts.host.scope if facts.host else ""
    return f"namespace {scope} {{\n\n{text}\n}}  // namespace {scope}\n" if scope else text


def host_names(facts: LibraryFacts) -> Mapping[str, str]:
    """Return the host function's name of each of the problem's tensors; outputs that it makes have none.

    Raises:
        UsageError: the original function does not take a tensor of the problem.
    """
    host = facts.host
    if host is None:
        return {spec.name: spec.name for spec in facts.bundle.signature.inputs}
    names = {tensor: parameter for parameter, tensor in host.tensors.items()}
    for replaced, output in host.copies.items():
        if output in names:
            names[replaced] = names.pop(output)
    missing = [spec.name for spec in facts.bundle.signature.inputs if spec.name not in names]
    if missing:
        raise UsageError(f"the original {host.function} of {host.file} does not take {', '.join(missing)}")
    return names


def _numbers(facts: LibraryFacts) -> Iterator[str]:
    """Yield what is passed for each number of the module."""
    host = facts.host
    given = {text: parameter for parameter, text in host.numbers.items()} if host else {}
    for name, value in facts.bundle.scalars().items():
        own = name if host is None else given.get(name)
        yield f"static_cast<{number_type(value)}>({own})" if own else repr(value)


def _places(facts: LibraryFacts, names: Mapping[str, str]) -> Iterator[tuple[TensorSpec, str]]:
    """Yield each tensor with the host's name of its memory: an output in place has the input's."""
    for spec in facts.bundle.signature.tensors:
        replaced = facts.in_place.get(spec.name, "")
        yield spec, names.get(replaced) or names.get(spec.name) or spec.name


# -- torch -------------------------------------------------------------------------------------------------------------


def _torch_body(facts: LibraryFacts) -> Iterator[str]:
    bundle, names, scope = facts.bundle, host_names(facts), own_scope(facts.bundle)
    first = names[bundle.signature.inputs[0].name]
    yield f"  c10::cuda::CUDAGuard const cutegen_guard({first}.device());\n"
    made = [spec for spec in facts.made_outputs() if spec.name not in names]
    for spec in made:
        extents = ", ".join(_torch_text(text, names) for text in facts.output_shape(spec))
        options = f"{first}.options().dtype({SCALAR_TYPES[spec.dtype]})"
        yield f"  at::Tensor {spec.name} = at::empty({{{extents}}}, {options});\n"
    for spec, place in _places(facts, names):
        checked = f'{place}, {SCALAR_TYPES[spec.dtype]}, "{place}"'
        yield f"  auto const cutegen_{spec.name} = ::{scope}::cutegen::view({checked});\n"
    listed = ", ".join((*(f"cutegen_{t.name}" for t in bundle.signature.tensors), *_numbers(facts)))
    yield f"""\
  std::size_t const cutegen_bytes = ::{scope}::{bundle.name}_workspace_bytes({listed});
  auto const cutegen_workspace =
      at::empty({{static_cast<std::int64_t>(cutegen_bytes)}}, {first}.options().dtype(at::kByte));
  cudaError_t const cutegen_error = ::{scope}::{bundle.name}_launch(
      {listed}, cutegen_workspace.data_ptr(), c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(cutegen_error == cudaSuccess, "{bundle.name}: ", cudaGetErrorString(cutegen_error));
"""
    yield from _torch_return(facts, names)


def _torch_return(facts: LibraryFacts, names: Mapping[str, str]) -> Iterator[str]:
    places = {spec.name: place for spec, place in _places(facts, names)}
    host = facts.host
    returned = (
        [spec.name for spec in facts.made_outputs()] if host is None
        else [] if re.match(r"(?:\w+ )*void\b", host.head) else list(host.returned)
    )  # fmt: skip
    if "" in returned:
        assert host is not None
        raise UsageError(
            f"the original {host.function} of {host.file} returns a tensor that is no output of the problem"
        )
    if len(returned) == 1:
        yield f"  return {places[returned[0]]};\n"
    elif returned:
        yield f"  return {{{', '.join(places[name] for name in returned)}}};\n"


def _torch_text(text: str, names: Mapping[str, str]) -> str:
    """Write a plan expression over shapes with torch's names."""

    def extent(match: re.Match[str]) -> str:
        return f"{names[match[1]]}.size({match[2]})"

    return re.sub(r"(\w+)\.shape\[(-?\d+)\]", extent, text).replace("//", "/")


# -- raw pointers ------------------------------------------------------------------------------------------------------


def _raw_body(facts: LibraryFacts) -> Iterator[str]:
    host, bundle, names, scope = facts.host, facts.bundle, host_names(facts), own_scope(facts.bundle)
    assert host is not None
    stream = next((p.name for p in host.parameters if p.type.endswith("cudaStream_t")), "cudaStream_t{}")
    for spec, place in _places(facts, names):
        if place not in {parameter.name for parameter in host.parameters}:
            raise UsageError(f"the original {host.function} of {host.file} does not take {spec.name}")
        extents = ", ".join(_extents(facts, host, spec))
        yield (
            f"  ::{scope}::cutegen::Tensor const cutegen_{spec.name}{{"
            f"const_cast<void*>(static_cast<void const*>({place})), {{{extents}}}, sizeof({C_TYPES[spec.dtype]})}};\n"
        )
    listed = ", ".join((*(f"cutegen_{t.name}" for t in bundle.signature.tensors), *_numbers(facts)))
    fails = "return cutegen_error;" if host.head.startswith("cudaError_t") else "return;"
    last = "  return cutegen_error;\n" if host.head.startswith("cudaError_t") else "  (void)cutegen_error;\n"
    yield f"""\
  std::size_t const cutegen_bytes = ::{scope}::{bundle.name}_workspace_bytes({listed});
  void* cutegen_workspace = nullptr;
  cudaError_t cutegen_error = cudaSuccess;
  if (cutegen_bytes > 0) cutegen_error = cudaMallocAsync(&cutegen_workspace, cutegen_bytes, {stream});
  if (cutegen_error != cudaSuccess) {fails}
  cutegen_error = ::{scope}::{bundle.name}_launch({listed}, cutegen_workspace, {stream});
  if (cutegen_workspace) cudaFreeAsync(cutegen_workspace, {stream});
{last}"""


def _extents(facts: LibraryFacts, host: HostFunction, spec: TensorSpec) -> Iterator[str]:
    """Yield the extents of a tensor from the host function's numbers; one of all elements where that is all it uses.

    Raises:
        UsageError: the numbers do not say an extent.
    """
    known = {parameter: facts.values(text) for parameter, text in host.numbers.items()}
    signatures = facts.signatures.values()
    found = [
        _from_numbers(known, [signature.tensor(spec.name).shape[axis] for signature in signatures])
        for axis in range(len(spec.shape))
    ]
    if all(found):
        yield from (text for text in found if text)
        return
    whole = _from_numbers(known, [signature.tensor(spec.name).numel for signature in signatures])
    if whole and not _uses_shape(facts, spec.name):
        yield whole
        return
    axis = found.index("")
    raise UsageError(
        f"the numbers that the original {host.function} of {host.file} takes do not say the shape of {spec.name} "
        f"(axis {axis}), which the kernel's plan uses: export the operator instead, or give the function that number"
    )


def _from_numbers(known: Mapping[str, list[float | None]], wanted: list[int]) -> str:
    """Return the wanted number, on every workload, from one of the host's numbers, or from a product of two."""
    constant = str(wanted[0]) if len(wanted) > 1 and len(set(wanted)) == 1 else ""
    for name, values in known.items():
        if values == wanted:
            return f"std::int64_t({name})"
        for factor in range(2, 9):
            if [v * factor if v is not None else None for v in values] == wanted:
                return f"std::int64_t({name}) * {factor}"
            if all(v is not None and v == w * factor for v, w in zip(values, wanted, strict=True)):
                return f"std::int64_t({name}) / {factor}"
    for one, left in known.items():
        for other, right in known.items():
            pairs = zip(left, right, wanted, strict=True)
            if one < other and all(a is not None and b is not None and a * b == w for a, b, w in pairs):
                return f"std::int64_t({one}) * std::int64_t({other})"
    return constant


def _uses_shape(facts: LibraryFacts, tensor: str) -> bool:
    """Tell whether the plan asks for more of a tensor than its number of elements."""
    texts = facts.bundle.kernel.text.split("*/", 1)[0]
    return bool(re.search(rf"\b{re.escape(tensor)}\.(?:shape|stride)\b", texts))
