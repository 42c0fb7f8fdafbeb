"""Tensor maps in a kernel file: what is read, what is refused with which numbers, and what the record says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutegen_core.kernel.check_arguments import check_arguments, parse_parameters
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.screening import screen
from cutegen_core.kernel.tensor_map_rules import find_broken_rule
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import Launch, LaunchPlan, TensorArgument, TensorMap, TensorMapArgument
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import KernelResources
from cutegen_core.share.exports import nvcc
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.cu import cu_file
from cutegen_core.share.exports.modelnew import cuda_source, modelnew_file, plan_function
from tests.later import Later

torch = Later("torch")

PLAN = """/* cutegen
[params]
BM = 64

[[scratch]]
name = "partial"
dtype = "float32"
shape = [64, 32]

[[tensormap]]
name = "a_map"
tensor = "a"
box = [64, "BM"]
swizzle = "128B"
l2_promotion = "256B"

[[tensormap]]
name = "part"
tensor = "partial"
box = [4, 2]
dims = [16, 8, 4]
strides = [32, 512]
offset = 16

[[launch]]
kernel = "k"
grid = [1]
block = [32]
args = ["a_map", "part", "a"]
*/
__global__ void k(const __grid_constant__ CUtensorMap a, const __grid_constant__ cute::TmaDescriptor p, void* q) {}
"""
HOPPER = KNOWN["sm_90a"]


def signature(m: int = 100, k: int = 256, dtype: str = "bfloat16") -> Signature:
    return Signature((TensorSpec("a", dtype, (m, k)),), (TensorSpec("out", dtype, (m, k), TensorRole.OUTPUT),))


def plan(text: str, given: Signature | None = None) -> LaunchPlan:
    return parse(text).plan(given or signature(), HOPPER)


def test_defaults_describe_the_whole_tensor_fastest_dimension_first() -> None:
    made = plan(PLAN.replace("box = [4, 2]", "box = [4, 2, 1]"))
    assert made.tensor_maps[0] == TensorMap(
        name="a_map", tensor="a", dtype="bfloat16", offset_bytes=0, dims=(256, 100), strides_bytes=(512,), box=(64, 64),
        element_strides=(1, 1), swizzle="128B", l2_promotion="256B", line=10,
    )  # fmt: skip
    assert made.tensor_maps[0].codes == (9, 0, 3, 3, 0)
    assert made.launches[0].args == (
        TensorMapArgument("a_map"), TensorMapArgument("part"), TensorArgument("a", "bfloat16"),
    )  # fmt: skip


def test_a_view_of_scratch_has_its_own_dims_strides_and_offset() -> None:
    view = plan(PLAN.replace("box = [4, 2]", "box = [4, 2, 1]")).tensor_maps[1]
    assert (view.dims, view.strides_bytes, view.offset_bytes, view.box) == ((16, 8, 4), (128, 2048), 64, (4, 2, 1))
    assert view.codes == (7, 0, 0, 0, 0)


GOOD = PLAN.replace("box = [4, 2]", "box = [4, 2, 1]")
REFUSED = [
    ("box = [64, ", "box = [128, ", 13,
     "the inner box extent is 128 elements of 2 bytes, 256 bytes; swizzle 128B allows at most 128 bytes"),
    ("box = [64, ", "box = [4, ", 13, "the inner box extent is 4 elements of 2 bytes, 8 bytes; it must be a multiple"),
    ('"BM"]', "512]", 13, "box dimension 1 has 512 elements; 1 to 256 are possible"),
    ('"BM"]', "0]", 13, "box dimension 1 has 0 elements"),
    ('64, "BM"]', "64]", 13, "box has 1 entries, the view has 2 dimensions (256, 100)"),
    ("strides = [32, 512]", "strides = [30, 512]", 22,
     "the stride of dimension 1 is 30 elements of 4 bytes, 120 bytes; it must be a multiple of 16 bytes"),
    ("strides = [32, 512]", "strides = [32]", 22, "1 strides for 3 dimensions; one less is needed"),
    ("strides = [32, 512]", "strides = [32, 640]", 22, "the view reaches element 2175 of partial, which has 2048"),
    ("dims = [16, 8, 4]", "dims = [16, 8, 0]", 21, "dimension 2 has 0 elements"),
    ("offset = 16", "offset = 18", 23, "the view begins 72 bytes into partial; that must be a multiple of 16 bytes"),
    ('"128B"', '"96B"', 14, "swizzle of a_map must be one of none, 32B, 64B, 128B, not '96B'"),
    ('l2_promotion = "256B"', 'interleave = "16B"', 15, "interleave 16B needs 3 dimensions or more, this has 2"),
    ('l2_promotion = "256B"', 'fill = "nan"', 15, "unknown key 'fill' in [[tensormap]] number 1"),
    ('tensor = "a"', 'tensor = "aa"', 12, "there is no tensor 'aa'; did you mean 'a'?"),
    ('name = "a_map"', 'name = "BM"', 11, "'BM' is a parameter already and cannot be a tensor map too"),
    ('name = "a_map"', 'name = "out"', 10, "no launch has the tensor map out among its args"),
    ('"a_map", ', '"a_map.numel", ', 10, "no launch has the tensor map a_map among its args"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), REFUSED)
def test_what_is_refused_names_the_line_and_both_numbers(old: str, new: str, line: int, message: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(KernelFileError) as refused:
        plan(GOOD.replace(old, new))
    assert message in str(refused.value)
    assert refused.value.line == line


def test_a_tensor_map_may_not_be_called_like_a_tensor() -> None:
    text = GOOD.replace('"a_map"', '"out"')
    with pytest.raises(KernelFileError, match="'out' is a name of the problem's signature"):
        plan(text)


def test_an_odd_row_length_is_refused_with_the_workload_and_spared_by_when() -> None:
    kernel = parse(GOOD)
    odd = signature(k=255)
    with pytest.raises(
        KernelFileError, match=r"line 10: workload 'odd': tensor map a_map: the stride of dimension 1 is 255"
    ):
        kernel.plan(odd, HOPPER, workload="odd")
    fallback = '"a_map", "part", "a"]\nwhen = "a.shape[1] % 8 == 0"\n[[launch]]\nkernel = "k2"\n'
    fallback += 'grid = [1]\nblock = [32]\nargs = ["a"]\nwhen = "a.shape[1] % 8 != 0"'
    spared = parse(GOOD.replace('"a_map", "part", "a"]', fallback) + "__global__ void k2(void* q) {}\n")
    assert spared.plan(odd, HOPPER).tensor_maps == ()
    assert len(spared.plan(signature(), HOPPER).tensor_maps) == 2


def test_older_architectures_have_no_tensor_maps() -> None:
    with pytest.raises(KernelFileError, match="sm_86 has no tensor maps, they begin with sm_90"):
        parse(GOOD).plan(signature(), KNOWN["sm_86"])


def test_modes_have_their_rules_too() -> None:
    base = TensorMap("m", "x", "int32", 0, (8, 4, 4), (32, 128), (8, 2, 2), (1, 1, 1))
    assert find_broken_rule(base, 128, 1 << 16) is None
    for changed, key, message in (
        (replace(base, oob_fill="nan"), "oob_fill", "needs floating-point elements, x holds int32"),
        (replace(base, interleave="32B"), "swizzle", "interleave 32B needs swizzle 32B, not none"),
        (replace(base, interleave="32B", offset_bytes=16), "offset", "must be a multiple of 32 bytes"),
        (replace(base, dims=(8,) * 6, strides_bytes=(32,) * 5, box=(8,) * 6), "dims", "x has 6 dimensions"),
        (replace(base, box=(8, 256, 256), dims=(8, 4, 4)), "box", "box (8, 256, 256) is 2097152 bytes"),
    ):
        broken = find_broken_rule(changed, 128, 1 << 16)
        assert broken is not None
        assert (broken.key, message in broken.message) == (key, True), broken


def messages(types: str, *args: TensorArgument | TensorMapArgument) -> list[str]:
    made = LaunchPlan((Launch("k", (1, 1, 1), (32, 1, 1), 0, args, line=3),))
    return [d.message for d in check_arguments(made, [KernelResources("k", f"k({types})", 8, 0, 0, 0, 0)])]


def test_a_tensor_map_is_taken_by_value() -> None:
    given = TensorMapArgument("a_map")
    assert messages("cute::TmaDescriptor, CUtensorMap", given, given) == []
    assert "take it by value, const __grid_constant__ CUtensorMap a_map" in messages("CUtensorMap const*", given)[0]
    assert "the plan gives the tensor map a_map" in messages("float*", given)[0]
    assert "describe it in a [[tensormap]]" in messages("cute::TmaDescriptor", TensorArgument("a", "float32"))[0]


def screened(code: str) -> list[str]:
    kernel: KernelFile = parse(GOOD + code)
    return [d.message for d in screen(kernel)]


def test_a_copied_tensor_map_is_refused_before_the_compiler() -> None:
    assert screened("__device__ void f(CUtensorMap const& m, cute::TmaDescriptor const* p) {}") == []
    assert screened("template <class T> __global__ void g(T x, __grid_constant__ const CUtensorMap m) {}") == []
    for copied in ("CUtensorMap m", "const cute::TmaDescriptor m", "int n, CUtensorMap const m, int k"):
        assert len(screened(f"__global__ void g({copied}) {{}}")) == 1


# -- exports -----------------------------------------------------------------------------------------------------------


def bundle() -> Bundle:
    kernel = parse(GOOD)
    types = parse_parameters("k(cute::TmaDescriptor, cute::TmaDescriptor, void*)")
    problem = library.load("relu")
    return Bundle(
        "k", problem, kernel, kernel.defaults(), {"one": signature()}, {"k": types}, "sm_90a", "c" * 64,
        "a test",
    )  # fmt: skip


def test_an_exported_plan_in_python_describes_the_same_tensor_maps() -> None:
    namespace: dict[str, Any] = {}
    exec(compile(modelnew_file(bundle()), "<modelnew>", "exec"), namespace)
    for given in (signature(), signature(7, 1024)):
        tensors = {t.name: namespace["cutegen_facts"](t.shape, getattr(torch, t.dtype)) for t in given.tensors}
        _, launches = namespace["cutegen_plan"](tensors, {})
        a, part, last = launches[0].arguments[:2], launches[0].arguments[2:4], launches[0].arguments[4:]
        assert last == ["a"]
        for (tensor, numbers), want in zip((a, part), plan(GOOD, given).tensor_maps, strict=True):
            assert tensor == want.tensor
            listed = (*want.dims, *want.strides_bytes, *want.box)
            assert numbers == [*want.codes, want.offset_bytes, want.rank, *listed]
    assert "'partial', [7, 0, 0, 0, 0, 16 * 4, 3," in plan_function(bundle())


def test_an_exported_launcher_encodes_through_the_driver() -> None:
    text = cu_file(bundle())
    assert text.count("cutegen::encode(a_map, a.data, cutegen_a_map)") == 1
    assert "long long const cutegen_part[] = {7ll, 0ll, 0ll, 0ll, 0ll, (16ll * 4ll), 3ll, 16ll, 8ll, 4ll," in text
    assert "stream, a_map, part, a.data);" in text


@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc here")
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("source", [cuda_source, cu_file])
def test_exported_tensor_maps_compile(source: Any) -> None:
    assert nvcc.check(source(bundle()), "sm_90a").compiled
