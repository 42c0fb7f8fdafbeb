"""C++ that hosts a kernel file: the device code under nvcc, a typed launch, and the whole plan as one function.

1. `device_code`: includes, the parameters as constants, the candidate's body.
2. `LAUNCH`: one launch with dynamic shared memory, clusters and cooperative groups. It takes the kernel's own parameter
   types, so that a pointer or a number can never arrive as another type.
3. `header` and `host_launcher`: `NAME_workspace_bytes(...)` and `NAME_launch(...)`, which evaluate the plan for the
   tensors they are given.
"""

from __future__ import annotations

from cutegen_core.kernel.plan_records import DEVICE_NAMES, LaunchSpec, Located, global_name
from cutegen_core.share.exports import tensor_maps
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.own_names import Enclosed, between_macros, enclose
from cutegen_core.share.exports.translate import HELPERS_CPP, to_cpp

PROLOGUE = """\
// Some build systems switch off the operators of the half types; the kernel may use them.
#undef __CUDA_NO_HALF_OPERATORS__
#undef __CUDA_NO_HALF_CONVERSIONS__
#undef __CUDA_NO_HALF2_OPERATORS__
#undef __CUDA_NO_BFLOAT16_CONVERSIONS__
#undef __CUDA_NO_BFLOAT16_OPERATORS__
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <cute/tensor.hpp>
"""

IN_PLACE = """\
// Outputs lie over inputs here, so no pointer of the kernel is alone with its memory.
#define __restrict__
#define __restrict
"""

LAUNCH = """\
namespace cutegen {

struct Config {
  dim3 grid, block, cluster;
  std::size_t smem_bytes;
  bool cooperative;
};

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), Config const& config, cudaStream_t stream, Arguments... arguments) {
  if (config.smem_bytes > 48 * 1024) {
    // More than 48 KiB of dynamic shared memory must be asked for.
    cudaError_t const error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(config.smem_bytes));
    if (error != cudaSuccess) return error;
  }
  unsigned const blocks = config.cluster.x * config.cluster.y * config.cluster.z;
  if (blocks > 8) {
    // Not every device has clusters of more than 8 blocks.
    cudaError_t const error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.smem_bytes;
  launch_config.stream = stream;
  launch_config.attrs = attributes;
  if (blocks > 1) {
    cudaLaunchAttribute& cluster = attributes[launch_config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = config.cluster.x;
    cluster.val.clusterDim.y = config.cluster.y;
    cluster.val.clusterDim.z = config.cluster.z;
  }
  if (config.cooperative) {
    cudaLaunchAttribute& cooperative = attributes[launch_config.numAttrs++];
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
  }
  return cudaLaunchKernelEx(&launch_config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace cutegen
"""

TENSOR = """\
namespace cutegen {

// A dense row-major tensor on the device.
struct Tensor {
  void* data;
  std::vector<std::int64_t> extents;
  std::int64_t element_bytes;

  std::int64_t numel() const {
    std::int64_t count = 1;
    for (std::int64_t extent : extents) count *= extent;
    return count;
  }
  std::int64_t itemsize() const { return element_bytes; }
  std::int64_t shape(std::int64_t i) const { return extents.at(std::size_t(i < 0 ? i + rank() : i)); }
  std::int64_t stride(std::int64_t i) const {
    std::int64_t step = 1;
    for (std::int64_t j = rank() - 1; j > (i < 0 ? i + rank() : i); --j) step *= extents[std::size_t(j)];
    return step;
  }
  std::int64_t rank() const { return std::int64_t(extents.size()); }
};

struct Device {
  int sm_count = 0, smem_max = 0, warp_size = 0, arch = 0;
  cudaError_t query() {
    int id = 0, major = 0, minor = 0;
    cudaError_t error = cudaGetDevice(&id);
    for (auto [value, attribute] : {std::pair{&sm_count, cudaDevAttrMultiProcessorCount},
                                    std::pair{&smem_max, cudaDevAttrMaxSharedMemoryPerBlockOptin},
                                    std::pair{&warp_size, cudaDevAttrWarpSize},
                                    std::pair{&major, cudaDevAttrComputeCapabilityMajor},
                                    std::pair{&minor, cudaDevAttrComputeCapabilityMinor}})
      if (error == cudaSuccess) error = cudaDeviceGetAttribute(value, attribute, id);
    arch = 10 * major + minor;
    return error;
  }
};

inline std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace cutegen
"""

C_TYPES = {
    "float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2", "int64": "std::int64_t",
    "int32": "std::int32_t", "int16": "std::int16_t", "int8": "std::int8_t", "uint8": "std::uint8_t", "bool": "bool",
}  # fmt: skip


def nvcc_flags(arch: str) -> tuple[str, ...]:
    """Return the nvcc options that the device code needs besides the CUTLASS include folder."""
    return ("-std=c++17", "-O3", f"-arch={arch}", "--expt-relaxed-constexpr")


def device_code(bundle: Bundle, scope: str = "") -> str:
    """Return includes, parameters and the candidate's own C++, to be compiled by nvcc; its macros end with it.

    Args:
        scope: a namespace for all but the includes.
    """
    constants = bundle.kernel.to_cpp(bundle.params).partition("#line ")[0]
    body = bundle.kernel.body.replace("\r\n", "\n").strip("\n")
    includes, body = enclose(body, scope) if scope else Enclosed("", body)
    parameters = f"// The plan's parameters.\n{constants}\n" if constants else ""
    shared = f"{IN_PLACE}\n" if bundle.in_place else ""
    code = f"{parameters}{shared}// The kernel.\n{body}\n\n{_kernels(bundle, scope)}"
    code = f"namespace {scope} {{\n\n{code}\n}}  // namespace {scope}\n" if scope else code
    return f"{PROLOGUE}{includes}\n{between_macros(code)}"


def _kernels(bundle: Bundle, scope: str) -> str:
    """Return the kernels as the plan names them, where the names mean what they mean to the kernel's own code."""
    names = enumerate(bundle.kernel.kernel_names())
    found = ((i, f"{scope}{global_name(name)}") for i, name in names)
    return "".join(f"static constexpr auto {kernel_variable(i)} = {name};\n" for i, name in found)


def kernel_variable(index: int) -> str:
    """Return the host's name of a kernel: its own may be that of a size of the plan, or need its macros."""
    return f"cutegen_kernel_{index}"


def kernel_type(bundle: Bundle, kernel: str) -> str:
    """Return the kernel with its parameter types, for comments."""
    return f"{kernel}({', '.join(t.text for t in bundle.types[kernel])})"


def header(bundle: Bundle) -> str:
    """Return the declarations of the two host functions and of the tensor type they take."""
    tensors, name = _parameters(bundle), bundle.name
    return f"""\
#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

{TENSOR}
// Bytes of device memory that {name}_launch wants as its workspace (aligned to 256 bytes); 0 when it needs none.
std::size_t {name}_workspace_bytes({tensors});

// Runs the kernel on `stream`. Tensors are dense and row-major; {_outputs_text(bundle)} written.
cudaError_t {name}_launch({tensors}, void* workspace, cudaStream_t stream);
"""


def host_launcher(bundle: Bundle) -> str:
    """Return the definitions of the two host functions; needs `header`, `device_code` and `LAUNCH` before it."""
    tensors, name = _parameters(bundle), bundle.name
    launches = "".join(_launch(bundle, number, launch) for number, launch in bundle.launches())
    return f"""\
namespace cutegen {{

{HELPERS_CPP}
}}  // namespace cutegen

{tensor_maps.encode_helper(bundle)}std::size_t {name}_workspace_bytes({tensors}) {{
{_workspace_body(bundle)}}}

cudaError_t {name}_launch({tensors}, void* workspace, cudaStream_t stream) {{
{_device(bundle, "return error;")}{_names(bundle)}{_scratch(bundle)}{_nothing_to_do(bundle)}  bool launched = false;
{launches}  return launched ? cudaSuccess : cudaErrorInvalidConfiguration;
}}
"""


def _parameters(bundle: Bundle) -> str:
    tensors = [f"[[maybe_unused]] cutegen::Tensor const& {t.name}" for t in bundle.signature.tensors]
    numbers = bundle.scalars().items() if bundle.open_numbers else ()
    return ", ".join((*tensors, *(f"[[maybe_unused]] {number_type(value)} {name}" for name, value in numbers)))


def number_type(value: float) -> str:
    """Return the C++ type of a number of the module."""
    return "double" if isinstance(value, float) else "std::int64_t"


def _workspace_body(bundle: Bundle) -> str:
    if not bundle.kernel.scratch:
        return "  return 0;\n"
    sizes = "".join(_scratch_bytes(s.name, s.dtype, s.shape) for s in bundle.kernel.scratch)
    return f"{_device(bundle, 'return 0;')}{_names(bundle)}  std::size_t bytes = 0;\n{sizes}  return bytes;\n"


def _outputs_text(bundle: Bundle) -> str:
    names = " and ".join(t.name for t in bundle.signature.outputs)
    return f"{names} {'is' if len(bundle.signature.outputs) == 1 else 'are'}"


def _device(bundle: Bundle, failed: str) -> str:
    used = [n for n in DEVICE_NAMES if n in bundle.names_used()]
    if not used:
        return ""
    names = "".join(f"  [[maybe_unused]] std::int64_t const {n} = cutegen_device.{n};\n" for n in used)
    return (
        "  cutegen::Device cutegen_device;\n"
        f"  if (cudaError_t const error = cutegen_device.query(); error != cudaSuccess) {failed}\n{names}"
    )


def _names(bundle: Bundle) -> str:
    """Return the scalars of the module as constants, then `[let]` in order."""
    lines = []
    for name, value in () if bundle.open_numbers else bundle.scalars().items():
        text = repr(value) if isinstance(value, float) else str(value)
        lines.append(f"  [[maybe_unused]] constexpr {number_type(value)} {name} = {text};  // of the module\n")
    for let in bundle.kernel.lets:
        lines.append(f"  [[maybe_unused]] auto const {let.name} = {to_cpp(let.value.expression)};\n")
    return "".join(lines)


def _scratch_bytes(name: str, dtype: str, shape: tuple[Located, ...]) -> str:
    extents = " * ".join(f"std::size_t({to_cpp(e.expression)})" for e in shape) or "std::size_t{1}"
    return f"  bytes += cutegen::aligned({extents} * sizeof({C_TYPES[dtype]}));  // {name}\n"


def _scratch(bundle: Bundle) -> str:
    if not bundle.kernel.scratch:
        return "  (void)workspace;\n"
    lines = ["  char* cutegen_memory = static_cast<char*>(workspace);\n"]
    for spec in bundle.kernel.scratch:
        extents = ", ".join(f"std::int64_t({to_cpp(e.expression)})" for e in spec.shape)
        size = f"std::size_t({spec.name}.numel() * {spec.name}.itemsize())"
        lines.append(
            f"  cutegen::Tensor const {spec.name}{{cutegen_memory, {{{extents}}}, sizeof({C_TYPES[spec.dtype]})}};\n"
            f"  cutegen_memory += cutegen::aligned({size});\n"
        )
        if spec.zero:
            lines.append(
                f"  if (cudaError_t const error = cudaMemsetAsync({spec.name}.data, 0, {size}, stream); "
                f"error != cudaSuccess) return error;\n"
            )
    return "".join(lines)


def _nothing_to_do(bundle: Bundle) -> str:
    empty = " && ".join(f"{t.name}.numel() == 0" for t in bundle.signature.outputs)
    return f"  if ({empty}) return cudaSuccess;\n"


def _launch(bundle: Bundle, number: int, launch: LaunchSpec) -> str:
    smem = to_cpp(launch.smem.expression) if launch.smem else "0"
    config = (
        f"cutegen::Config{{{_dim3(launch.grid)}, {_dim3(launch.block)}, {_dim3(launch.cluster)}, "
        f"std::size_t({smem}), {'true' if launch.cooperative else 'false'}}}"
    )
    arguments = "".join(f", {_argument(bundle, a)}" for a in launch.args)
    body = f"""\
{_tensor_maps(bundle, launch)}    // {kernel_type(bundle, launch.kernel)}
    cudaError_t const error = cutegen::launch({kernel_variable(number)}, {config}, stream{arguments});
    if (error != cudaSuccess) return error;
    launched = true;
"""
    condition = f"if ({to_cpp(launch.when.expression, condition=True)}) " if launch.when else ""
    return f"  {condition}{{\n{body}  }}\n"


def _tensor_maps(bundle: Bundle, launch: LaunchSpec) -> str:
    """Encode the tensor maps that a launch takes; each becomes a variable of its own name."""
    lines = ""
    for argument in launch.args:
        spec = tensor_maps.named(bundle, argument)
        if spec and f" {spec.name};" not in lines:
            listed = ", ".join(tensor_maps.numbers(bundle, spec, to_cpp))
            lines += (
                f"    CUtensorMap {spec.name};\n"
                f"    long long const cutegen_{spec.name}[] = {{{listed}}};\n"
                f"    if (cudaError_t const error = cutegen::encode({spec.name}, {spec.tensor}.data, "
                f"cutegen_{spec.name}); error != cudaSuccess) return error;\n"
            )
    return lines


def _dim3(located: tuple[Located, ...]) -> str:
    return f"dim3({', '.join(f'unsigned({to_cpp(e.expression)})' for e in located)})" if located else "dim3(1)"


def _argument(bundle: Bundle, located: Located) -> str:
    text = located.expression.text.strip()
    if tensor_maps.named(bundle, located):
        return text
    return f"{text}.data" if text in bundle.tensor_names() else to_cpp(located.expression)
