"""A KernelBench `ModelNew` file: the reference's state, the plan in Python, the kernel through torch's loader.

1. The reference's source, its `Model` renamed, is the base class: parameters, buffers and init arguments are its own.
2. `cutegen_plan` evaluates the launch plan for the tensors at hand; `ModelNew` keeps the result per set of shapes.
3. Output shapes come from the reference's `forward` on fake tensors, once per set of shapes.
4. The CUDA source is compiled by `load_inline` when the file is loaded and a GPU is there.
"""

from __future__ import annotations

import json
import textwrap

from cutegen_core.kernel.check_arguments import ParameterType
from cutegen_core.kernel.plan_records import LaunchSpec, Located
from cutegen_core.records.problem import TensorRole
from cutegen_core.share.exports import tensor_maps
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.host_cpp import LAUNCH, device_code, kernel_type, kernel_variable
from cutegen_core.share.exports.reference_module import renamed
from cutegen_core.share.exports.rendering import one_line, render
from cutegen_core.share.exports.translate import HELPERS_PYTHON, to_python

_BASE = "CutegenReference"


def modelnew_file(bundle: Bundle) -> str:
    """Return the file's text; UsageError if the reference cannot be taken into one file."""
    return render(
        "modelnew.py.jinja",
        origin=bundle.origin,
        idea=one_line(bundle.kernel.idea),
        reference=renamed(bundle.problem, _BASE),
        cuda_source=raw_string(cuda_source(bundle)),
        cpp_source=raw_string(cpp_source(bundle)),
        functions=repr([f"launch_{i}" for i in range(len(bundle.kernel.kernel_names()))]),
        name=f"cutegen_{bundle.name}",
        contract=contract(bundle),
        helpers=HELPERS_PYTHON.strip("\n"),
        plan=plan_function(bundle),
    )


def cuda_source(bundle: Bundle) -> str:
    """Device code and one host function per kernel: `launch_I(config, stream, arguments...)`, free of torch headers."""
    launchers = "".join(_launcher(bundle, i, k) for i, k in enumerate(bundle.kernel.kernel_names()))
    return f"{device_code(bundle)}\n{LAUNCH}{tensor_maps.encode_helper(bundle)}{_CONFIG_READER}{launchers}"


def cpp_source(bundle: Bundle) -> str:
    """Return the binding of those functions to torch tensors."""
    return _BINDING_HEAD + "".join(_binding(bundle, i, k) for i, k in enumerate(bundle.kernel.kernel_names()))


_CONFIG_READER = """
// grid, block and cluster (x, y, z each), dynamic shared memory in bytes, cooperative or not
static cutegen::Config cutegen_config(long long const* v) {
  auto const dim = [](long long const* p) { return dim3(unsigned(p[0]), unsigned(p[1]), unsigned(p[2])); };
  return {dim(v), dim(v + 3), dim(v + 6), std::size_t(v[9]), v[10] != 0};
}
"""

_BINDING_HEAD = """\
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

static void cutegen_check(cudaError_t error, char const* kernel) {
  TORCH_CHECK(error == cudaSuccess, kernel, ": ", cudaGetErrorString(error));
}
"""


def _scalar_type(wanted: ParameterType) -> str:
    return "double" if wanted.base in ("float", "double") else "long long"


def _cpp_parameters(bundle: Bundle, kernel: str, pointer: str, numbers: str = "long long const*") -> str:
    """Pass a tensor map as its tensor and the numbers of its descriptor."""
    listed = ""
    for i, wanted in enumerate(bundle.types[kernel]):
        mapped = tensor_maps.is_map(wanted)
        listed += f", {pointer if wanted.pointer or mapped else _scalar_type(wanted)} a{i}"
        listed += f", {numbers} m{i}" if mapped else ""
    return listed


def _launcher(bundle: Bundle, index: int, kernel: str) -> str:
    types = bundle.types[kernel]
    maps = [i for i, t in enumerate(types) if tensor_maps.is_map(t)]
    encoded = "".join(
        f"  CUtensorMap t{i};\n"
        f"  if (cudaError_t const error = cutegen::encode(t{i}, a{i}, m{i}); error != cudaSuccess) return error;\n"
        for i in maps
    )
    arguments = "".join(f", t{i}" if i in maps else f", a{i}" for i in range(len(types)))
    parameters = f"long long const* config, cudaStream_t stream{_cpp_parameters(bundle, kernel, 'void*')}"
    return f"""
// {kernel_type(bundle, kernel)}
cudaError_t cutegen_launch_{index}({parameters}) {{
{encoded}  return cutegen::launch({kernel_variable(index)}, cutegen_config(config), stream{arguments});
}}
"""


def _binding(bundle: Bundle, index: int, kernel: str) -> str:
    types = bundle.types[kernel]
    passed = {True: ", a{0}.data_ptr(), m{0}.data()", False: ", a{0}.data_ptr()"}
    arguments = "".join(
        passed[tensor_maps.is_map(t)].format(i) if t.pointer or tensor_maps.is_map(t) else f", a{i}"
        for i, t in enumerate(types)
    )
    first = next((i for i, t in enumerate(types) if t.pointer or tensor_maps.is_map(t)), None)
    taken = _cpp_parameters(bundle, kernel, "at::Tensor const&", "std::vector<long long> const&")
    guard = f"  c10::cuda::CUDAGuard const guard(a{first}.device());\n" if first is not None else ""
    return f"""
cudaError_t cutegen_launch_{index}(long long const*, cudaStream_t{_cpp_parameters(bundle, kernel, "void*")});
void launch_{index}(std::vector<long long> const& config{taken}) {{
{guard}  auto const stream = c10::cuda::getCurrentCUDAStream();
  cutegen_check(cutegen_launch_{index}(config.data(), stream{arguments}), {json.dumps(kernel)});
}}
"""


def plan_function(bundle: Bundle) -> str:
    """Return `cutegen_plan(tensors, numbers)` in Python: scratch to allocate and launches to make."""
    kernel = bundle.kernel
    scratch_names = {s.name for s in kernel.scratch}
    used = bundle.names_used()
    lines = [f"{t.name} = tensors[{t.name!r}]" for t in bundle.signature.tensors if t.name in used]
    numbers = [*bundle.scalars(), *(n for n in ("sm_count", "smem_max", "warp_size", "arch") if n in used)]
    lines += [f"{name} = numbers[{name!r}]" for name in numbers]
    lines += [f"{name} = {value!r}" for name, value in bundle.params.items() if name in used]
    lines += [f"{let.name} = {to_python(let.value.expression)}" for let in kernel.lets]
    lines.append("cutegen_scratch = {}")
    for spec in kernel.scratch:
        shape = _tuple(spec.shape)
        lines.append(f"cutegen_scratch[{spec.name!r}] = CutegenScratch({shape}, torch.{spec.dtype}, {spec.zero})")
        if spec.name in used:
            lines.append(f"{spec.name} = cutegen_facts({shape}, torch.{spec.dtype})")
    lines.append("cutegen_launches = []")
    tensors = bundle.tensor_names() | scratch_names
    for index, launch in bundle.launches():
        made = textwrap.indent(_made(bundle, index, launch, tensors), "    " if launch.when else "")
        lines += [f"if {to_python(launch.when.expression, condition=True)}:"] if launch.when else []
        lines.append(made)
    lines.append("return cutegen_scratch, cutegen_launches")
    return "def cutegen_plan(tensors, numbers):\n" + _PLAN_DOC + textwrap.indent("\n".join(lines), "    ") + "\n"


_PLAN_DOC = '''\
    """The launch plan for tensors of these facts: name -> CutegenScratch, and a list of CutegenLaunch."""
'''


def _passed(bundle: Bundle, argument: Located, tensors: frozenset[str]) -> str:
    """Pass a tensor by its name, and a tensor map as two arguments: its tensor's name and its numbers."""
    text = argument.expression.text.strip()
    if spec := tensor_maps.named(bundle, argument):
        return f"{spec.tensor!r}, [{', '.join(tensor_maps.numbers(bundle, spec, to_python))}]"
    return repr(text) if text in tensors else to_python(argument.expression)


def _made(bundle: Bundle, index: int, launch: LaunchSpec, tensors: frozenset[str]) -> str:
    cluster, smem = (_tuple(launch.cluster) if launch.cluster else "()"), "0"
    if launch.smem:
        smem = to_python(launch.smem.expression)
    arguments = ", ".join(_passed(bundle, a, tensors) for a in launch.args)
    return (
        f"# {launch.kernel}\n"
        f"cutegen_launches.append(\n"
        f"    CutegenLaunch({index}, {_tuple(launch.grid)}, {_tuple(launch.block)}, {cluster}, {smem}, "
        f"{launch.cooperative}, [{arguments}])\n)"
    )


def _tuple(located: tuple[Located, ...]) -> str:
    return f"({', '.join(to_python(e.expression) for e in located)}{',' if len(located) == 1 else ''})"


def contract(bundle: Bundle) -> str:
    """Return names, dtypes and roles, as the plan knows the tensors."""

    def listed(role: TensorRole) -> str:
        tensors = (*bundle.signature.inputs, *bundle.signature.outputs)
        entries = "".join(f"    ({t.name!r}, torch.{t.dtype}),\n" for t in tensors if t.role is role)
        return f"[\n{entries}]" if entries else "[]"

    return (
        f"CUTEGEN_INPUTS = {listed(TensorRole.INPUT)}\n"
        f"CUTEGEN_PARAMETERS = {listed(TensorRole.PARAMETER)}\n"
        f"CUTEGEN_BUFFERS = {listed(TensorRole.BUFFER)}\n"
        f"CUTEGEN_OUTPUTS = {listed(TensorRole.OUTPUT)}\n"
        f"# plain numbers the plan uses: their values in the problem, read again from the module at run time\n"
        f"CUTEGEN_NUMBERS = {bundle.scalars()!r}\n"
        f"# names of the plain numbers of the contract, those of forward's arguments first\n"
        f"CUTEGEN_NUMBER_NAMES = {list(bundle.signature.scalars)!r}"
    )


def raw_string(text: str) -> str:
    """Return a Python literal that reads like the text if possible."""
    if '"""' in text or text.endswith(("\\", '"')):
        return repr(text)
    return f'r"""\n{text}"""'
