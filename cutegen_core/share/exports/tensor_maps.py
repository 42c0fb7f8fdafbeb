"""Tensor maps in exported code: the numbers of a descriptor as expressions, and the C++ that encodes it.

A descriptor travels as a list of whole numbers: data type, interleave, swizzle, L2 promotion and fill as cuda.h counts
them, offset of the view in bytes, rank, dims (fastest first), strides of dimensions 1 and up in bytes, box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutegen_core.kernel.check_arguments import TENSOR_MAP_TYPES, ParameterType
from cutegen_core.kernel.expressions import Expression, parse_expression
from cutegen_core.kernel.plan_records import Located, TensorMapSpec
from cutegen_core.records.launch import INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, SWIZZLES, TENSOR_MAP_DATA_TYPES
from cutegen_core.records.problem import ITEMSIZE
from cutegen_core.share.exports.bundle import Bundle

ENCODE = """\
#include <cuda.h>

namespace cutegen {

// numbers: data type, interleave, swizzle, L2 promotion, fill, offset in bytes, rank, dims (fastest first), strides in
// bytes of dimensions 1 and up, box. The driver's function is asked for at run time: nothing links to libcuda.
inline cudaError_t encode(CUtensorMap& map, void* data, long long const* numbers) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*,
                              cuuint64_t const*, cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  cudaError_t const asked =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
#else
  cudaError_t const asked = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
#endif
  if (asked != cudaSuccess || found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  auto const rank = static_cast<cuuint32_t>(numbers[6]);
  cuuint64_t dims[5], strides[5] = {16};
  cuuint32_t box[5], steps[5];
  long long const* next = numbers + 7;
  for (cuuint32_t i = 0; i < rank; ++i) dims[i] = static_cast<cuuint64_t>(*next++), steps[i] = 1;
  for (cuuint32_t i = 0; i + 1 < rank; ++i) strides[i] = static_cast<cuuint64_t>(*next++);
  for (cuuint32_t i = 0; i < rank; ++i) box[i] = static_cast<cuuint32_t>(*next++);
  CUresult const done = reinterpret_cast<Encode>(entry)(
      &map, static_cast<CUtensorMapDataType>(numbers[0]), rank, static_cast<char*>(data) + numbers[5], dims, strides,
      box, steps, static_cast<CUtensorMapInterleave>(numbers[1]), static_cast<CUtensorMapSwizzle>(numbers[2]),
      static_cast<CUtensorMapL2promotion>(numbers[3]), static_cast<CUtensorMapFloatOOBfill>(numbers[4]));
  return done == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace cutegen
"""


def is_map(parameter: ParameterType) -> bool:
    """Tell whether a kernel takes a tensor map there."""
    return parameter.base in TENSOR_MAP_TYPES and not parameter.pointer


def encode_helper(bundle: Bundle) -> str:
    """Return `ENCODE` where the plan has tensor maps, else nothing."""
    return f"{ENCODE}\n" if bundle.kernel.tensor_maps else ""


def named(bundle: Bundle, argument: Located) -> TensorMapSpec | None:
    """Return the tensor map that a launch argument is, None if it is something else."""
    text = argument.expression.text.strip()
    return next((spec for spec in bundle.kernel.tensor_maps if spec.name == text), None)


def numbers(bundle: Bundle, spec: TensorMapSpec, write: Callable[[Expression], str]) -> list[str]:
    """Return the descriptor's numbers, each as `write` (`to_cpp` or `to_python`) writes it."""
    dtype, rank = _tensor(bundle, spec.tensor)
    size = ITEMSIZE[dtype]
    dims = _given(spec.dims) or [f"{spec.tensor}.shape[{rank - 1 - i}]" for i in range(rank)]
    dense = [" * ".join(f"({d})" for d in dims[: i + 1]) for i in range(len(dims) - 1)]
    strides = dense if spec.strides is None else _given(spec.strides)
    offset = spec.offset.expression.text if spec.offset else "0"
    codes = (
        TENSOR_MAP_DATA_TYPES[dtype], INTERLEAVES.index(spec.interleave), SWIZZLES.index(spec.swizzle),
        L2_PROMOTIONS.index(spec.l2_promotion), OOB_FILLS.index(spec.oob_fill),
    )  # fmt: skip
    in_bytes = [f"({text}) * {size}" for text in (offset, *strides)]
    texts = [*map(str, codes), in_bytes[0], str(len(dims)), *dims, *in_bytes[1:], *_given(spec.box)]
    return [write(parse_expression(text)) for text in texts]


def _given(located: Sequence[Located] | None) -> list[str]:
    return [e.expression.text for e in located or ()]


def _tensor(bundle: Bundle, name: str) -> tuple[str, int]:
    """Return the dtype and the rank of a tensor or scratch buffer."""
    for scratch in bundle.kernel.scratch:
        if scratch.name == name:
            return scratch.dtype, len(scratch.shape)
    spec = bundle.signature.tensor(name)
    return spec.dtype, len(spec.shape)
