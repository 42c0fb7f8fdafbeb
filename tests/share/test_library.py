"""A kernel goes back into its library: with the original's signature, as an operator, as a patch, and checked."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.problems import library as problems
from cutegen_core.problems import read
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.share.exports import bundle as bundles
from cutegen_core.share.exports.host_cpp import LAUNCH, header, host_launcher
from cutegen_core.share.exports.library import dropin, operator
from cutegen_core.share.exports.library.facts import LibraryFacts, Original, collect, count_lines, read_host
from cutegen_core.share.exports.library.patch import patch, patched
from cutegen_core.share.exports.library.project import library
from cutegen_core.share.exports.own_names import in_namespace
from cutegen_core.share.exports.torch_binding import own_scope
from cutegen_core.share.imports.plain_cu import import_kernel
from tests.later import Later
from tests.places import DATA
from tests.share.host_side import check_compiles, launch_nothing
from tests.share.plain_problems import PROBLEMS

torch = Later("torch")

SOFTMAX, NORM, IN_PLACE, RAW = "softmax_extension.cu", "rmsnorm_macro.cu", "add_norm_inplace.cu", "transpose_dim3.cu"
GELU = "gelu_helper.cu"
BACKWARD = """
def backward(grads, x):
    return grads[0] * (x > 0)
"""


def plain(file):
    return (DATA / "plain" / file).read_text()


@pytest.fixture(scope="module")
def made(shared):
    """The facts of an export of a plain file's kernel, for the problem that begins with it."""
    kept = {}

    def bundle_of(problem, text, signatures):
        compiled = shared.compiler().compile(kernel_file.parse(text))
        return bundles.build(
            problem, text, "sm_90a", "c" * 64, "a test", kernels=compiled.kernels, signatures=signatures
        )  # fmt: skip

    def take(file):
        if file not in kept:
            problem = PROBLEMS[file]()
            reference = shared.reference(problem)
            signatures = {w.name: reference.signature(w) for w in problem.workloads}
            text = import_kernel(plain(file), file, problem, signatures).text
            problem = replace(problem, existing=text)
            better = text.replace('idea = "', 'idea = "better than ', 1)
            kept[file] = collect(bundle_of(problem, better, signatures), Original(file, plain(file)))
        return kept[file]

    take.bundle_of = bundle_of
    return take


@pytest.fixture(scope="module")
def relu(made, shared):
    """The facts of ReLU, whose kernel came from nowhere."""
    problem = problems.load("relu")
    reference = shared.reference(problem)
    signatures = {w.name: reference.signature(w) for w in problem.with_role(WorkloadRole.BENCHMARK)}
    return collect(made.bundle_of(problem, (DATA / "relu.cu").read_text(), signatures))


# -- the drop-in -------------------------------------------------------------------------------------------------------


def test_the_drop_in_has_the_originals_signature(made, relu):
    heads = {file: dropin.head(made(file)) for file in (SOFTMAX, NORM, IN_PLACE, RAW)}
    assert heads == {
        SOFTMAX: "torch::Tensor softmax_forward(torch::Tensor input)",
        NORM: "torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps)",
        IN_PLACE: "void fused_add_rms_norm(torch::Tensor& input, torch::Tensor& residual, torch::Tensor& weight, "
                  "double epsilon)",
        RAW: "cudaError_t transpose(const float* src, float* dst, int rows, int cols, cudaStream_t stream)",
    }  # fmt: skip
    assert dropin.head(relu) == "at::Tensor relu(at::Tensor const& x)"


def test_numbers_come_from_the_caller_and_outputs_lie_over_inputs(made):
    norm, in_place = dropin.function(made(NORM)), dropin.function(made(IN_PLACE))
    assert "static_cast<double>(eps)" in norm
    assert "at::Tensor out = at::empty({x.size(0), x.size(1)}, x.options().dtype(at::kFloat));" in norm
    assert "return out;" in norm
    assert re.search(r'cutegen_out1 = ::\w+::cutegen::view\(residual, at::kFloat, "residual"\)', in_place)
    assert "return" not in in_place
    assert "#define __restrict__\n" in dropin.dropin_file(made(IN_PLACE))
    assert "#define __restrict__\n" not in dropin.dropin_file(made(NORM))


STUB = """
namespace cutegen {
struct Config { dim3 grid, block, cluster; std::size_t smem_bytes; bool cooperative; };
template <class... A> cudaError_t launch(void*, Config const&, cudaStream_t, A...) { return cudaSuccess; }
}
"""
TORCH = """
#define TORCH_CHECK(condition, ...) do { if (!(condition)) __builtin_trap(); } while (0)
namespace c10 {
struct Device {};
namespace cuda {
struct CUDAGuard { explicit CUDAGuard(Device) {} };
inline cudaStream_t getCurrentCUDAStream() { return 0; }
}
}
namespace at {
enum ScalarType { kFloat, kHalf, kByte, kDouble, kBFloat16, kLong, kInt, kShort, kChar, kBool };
struct Sizes { std::vector<std::int64_t> vec() const { return {}; } };
struct Options { Options dtype(ScalarType) const { return *this; } };
struct Tensor {
  c10::Device device() const { return {}; }
  bool is_cuda() const { return true; }
  bool is_contiguous() const { return true; }
  ScalarType scalar_type() const { return kFloat; }
  void* data_ptr() const { return nullptr; }
  Sizes sizes() const { return {}; }
  std::int64_t size(int) const { return 1; }
  std::size_t element_size() const { return 4; }
  Options options() const { return {}; }
};
inline Tensor empty(std::initializer_list<std::int64_t>, Options) { return {}; }
}
namespace torch { using at::Tensor; }
"""


MORE_FILES = (SOFTMAX, NORM, GELU, "silu_dispatch.cu", "softmax_chain.cu")


@pytest.mark.parametrize(
    "file", [IN_PLACE, RAW, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE_FILES)]
)
def test_the_host_side_of_a_drop_in_compiles(made, file, tmp_path):
    """Without a GPU's compiler only its host side is compiled, against the names of torch that it uses."""
    facts = made(file)
    launcher = launch_nothing(host_launcher(facts.bundle))
    head = (
        "#include <cmath>\n#include <cstdint>\n#include <initializer_list>\n#include <tuple>\n#include <type_traits>\n"
    )
    own = in_namespace(f"{header(facts.bundle)}{STUB}{dropin.VIEW}{launcher}", own_scope(facts.bundle))
    function = dropin.scoped(facts, dropin.function(facts))
    check_compiles(f"#include <cuda_fp16.h>\n#include <vector>\n{head}{TORCH}{own}\n{function}", tmp_path)


def test_what_the_original_does_not_say_is_refused_by_name(made):
    facts = made(RAW)
    host = replace(facts.host, numbers={"rows": "x.shape[0]"})
    with pytest.raises(
        UsageError, match=r"the original transpose of transpose_dim3\.cu takes do not say the shape of x"
    ):
        dropin.function(replace(facts, host=host))
    host = replace(facts.host, tensors={"dst": "out"})
    with pytest.raises(UsageError, match=r"the original transpose of transpose_dim3\.cu does not take x"):
        dropin.function(replace(facts, host=host))


def test_an_alias_that_cannot_be_is_refused(made, relu):
    problem = relu.bundle.problem
    wrong = read.read(f'{problem.source}\nALIAS = {{"out": "y"}}\n', "relu", "relu.py")
    with pytest.raises(UsageError, match=r"relu: ALIAS: 'y' is no input \(inputs: x\)"):
        collect(replace(relu.bundle, problem=wrong))


# -- the operator ------------------------------------------------------------------------------------------------------


def loaded(text):
    context = {"__name__": "operator_of_a_test"}
    exec(compile(text, "<operator>", "exec"), context)
    return context


def test_the_operator_knows_its_shapes_without_a_gpu(made):
    name = made(NORM).bundle.name
    rms_norm = loaded(operator.operator_module(made(NORM), "norm_of_a_test"))["norm_of_a_test"]
    with torch._subclasses.fake_tensor.FakeTensorMode():
        out = rms_norm(torch.empty(3, 8, device="cuda"), torch.empty(8, device="cuda"), 1e-6)
    assert (name, tuple(out.shape), out.dtype, out.device.type) == ("rmsnorm", (3, 8), torch.float32, "cuda")
    assert "mutates_args=()" in operator.operator_module(made(NORM))
    text = operator.operator_module(made(IN_PLACE))
    assert "mutates_args=('x', 'residual')" in text
    assert "-> None:" in text


def run_on_cpu(context, name, compute):
    """Give the operator a kernel for the CPU, so that torch's own dispatch and autograd run."""
    context[name].register_kernel("cpu")(compute)
    return context[name]


def test_without_a_formula_backward_says_so(relu):
    context = loaded(operator.operator_module(relu, "relu_without"))
    relu_without = run_on_cpu(context, "relu_without", torch.relu)
    x = torch.randn(4, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"cutegen::relu_without has no backward.*define backward\(grads, x\)"):
        relu_without(x).sum().backward()


def test_a_formula_in_the_problems_file_is_registered(relu):
    problem = read.read(relu.bundle.problem.source + BACKWARD, "relu", "relu.py")
    facts = replace(relu, bundle=replace(relu.bundle, problem=problem))
    context = loaded(operator.operator_module(facts, "relu_with"))
    relu_with = run_on_cpu(context, "relu_with", torch.relu)
    x = torch.randn(64, requires_grad=True)
    (relu_with(x) * torch.arange(64.0)).sum().backward()
    assert torch.equal(x.grad, torch.arange(64.0) * (x > 0))


# -- the patch and the folder ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [SOFTMAX, NORM, IN_PLACE, RAW, GELU])
def test_the_patch_applies_and_keeps_everything_but_the_kernel(made, file, tmp_path):
    facts = made(file)
    changed = patch(facts)
    (tmp_path / file).write_text(plain(file))
    (tmp_path / "the.patch").write_text(changed.text)
    tool = ["patch", "-p1", "-i", "the.patch"] if shutil.which("patch") else ["git", "apply", "the.patch"]
    subprocess.run(tool, cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / file).read_text()
    assert count_lines(text) == changed.after
    assert count_lines(plain(file)) == changed.before
    assert text.count("__global__ void") == facts.bundle.kernel.body.count("__global__ void")
    assert re.sub(r"\s+", " ", facts.host.head.split("(")[0]) in re.sub(r"\s+", " ", text)
    for kept in ("PYBIND11_MODULE", "TORCH_LIBRARY_FRAGMENT"):
        assert (kept in text) == (kept in plain(file))
    assert text.count("{") == text.count("}")


DEVICE = """
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <device_launch_parameters.h>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <vector>
#undef __noinline__
inline void __syncthreads() {}
using std::isnan;
namespace at { struct OptionalCUDAGuard {}; }
"""


def test_a_patched_original_compiles_beside_the_helpers_that_it_keeps(made, tmp_path):
    """For the host, where kernels are plain functions: no name of the kernel is the file's a second time."""
    facts = made(SOFTMAX)
    text = patched(facts, facts.host, facts.original)
    text = re.sub(
        r"#include <(?:cute|torch|ATen|c10)/[^\n]*|PYBIND11_MODULE.*?^}", "", text, flags=re.DOTALL | re.MULTILINE
    )
    assert text.count("float reduce(float value") == 2
    stub = STUB.replace(
        "template <class... A> cudaError_t launch(void*", "template <class K, class... A> cudaError_t launch(K"
    )
    check_compiles(DEVICE + TORCH + text.replace(LAUNCH, stub), tmp_path)


def test_without_the_original_the_patch_is_for_the_existing_kernel_file(made):
    facts = replace(made(NORM), original=None)
    lines = patch(facts).text.splitlines()
    assert lines[:2] == ["--- a/rmsnorm.cu", "+++ b/rmsnorm.cu"]
    assert [line for line in lines if line.startswith("+idea")] == [
        '+idea = "better than the existing kernel, imported from rmsnorm_macro.cu"'
    ]


def test_an_original_of_another_function_is_refused(made):
    with pytest.raises(UsageError, match=r"other\.cu: has no host function rms_norm \(functions: none\)"):
        patch(replace(made(NORM), original=Original("other.cu", "int x;")))


def test_the_folder_holds_what_its_readme_names_and_every_file_can_be_read(made):
    facts: LibraryFacts = made(IN_PLACE)
    files = library(replace(facts.bundle, original=tuple(facts.original)))
    named = re.findall(r"^\| `([\w.]+)`", files["README.md"], re.MULTILINE)
    assert set(named) == set(files) - {"README.md"}
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")
    assert "out0 is written over x; out1 is written over residual" in files["README.md"]
    assert re.search(r"\d+ before, \d+ after; of device code alone", files["README.md"])


def test_the_check_accepts_what_is_right_and_nothing_else(made):
    facts = made(IN_PLACE)
    context = loaded(library(facts.bundle)["check.py"].replace("__name__", "'a module'"))
    want = torch.randn(64, dtype=torch.float64)
    own = want.float()
    judge = context["judge"]
    assert judge(own.clone(), want, own, 1e-5, 1e-4) <= 1.0
    assert judge(own + 0.01, want, own, 1e-5, 1e-4) > 1.0
    assert judge(torch.full_like(own, float("nan")), want, own, 1e-5, 1e-4) == float("inf")
    assert context["IN_PLACE"] == {"out0": "x", "out1": "residual"}


def test_a_kernel_from_nowhere_has_no_host_function():
    assert read_host("/* cutegen */") is None
    with pytest.raises(UsageError, match="cutegen-host"):
        read_host("// cutegen-host {")
