"""The plan's arguments against demangled signatures."""

import pytest

from cutegen_core.kernel.check_arguments import check_arguments, parse_parameters
from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument, Scratch, TensorArgument
from cutegen_core.records.trial import KernelResources

X, OUT = TensorArgument("x", "float32"), TensorArgument("out", "float32")
HALF = TensorArgument("x", "float16")
N = ScalarArgument(1000, "n")


def messages(signature: str, *args: TensorArgument | ScalarArgument, severity: str = "error") -> list[str]:
    plan = LaunchPlan(
        (Launch("relu<BLOCK>", (1, 1, 1), (32, 1, 1), 0, args, line=7),), (Scratch("tmp", "float32", (4,), True),)
    )
    found = check_arguments(plan, [KernelResources("relu<BLOCK>", signature, 8, 0, 0, 0, 0)])
    assert all((d.line, d.tool) == (7, "plan") for d in found)
    return [d.message for d in found if d.severity == severity]


def test_what_fits_is_silent() -> None:
    for signature in (
        "void relu<256>(float const*, float*, long)",
        "void relu<(int)256>(const float *, float *, long)",
        "void relu<cute::tuple<int, (cute::C<4>)4>>(float const* __restrict__, float*, unsigned long long)",
        "relu(float const*, float*, float)",
        "void relu<256>(float4 const*, float4*, int)",
        "void relu<256>(cutlass::AlignedArray<float, 4, 16> const*, void*, short)",
    ):
        assert messages(signature, X, OUT, N) == []
        assert messages(signature, X, OUT, N, severity="warning") == []


def test_a_wrong_count_lists_what_is_expected() -> None:
    assert messages("void relu<256>(float const*, float*, long)", X, OUT) == [
        "relu expects 3 parameters (float const*, float*, long), the plan gives 2"
    ]
    assert messages("void relu<256>()", X) == ["relu expects 0 parameters (), the plan gives 1"]


@pytest.mark.parametrize(
    ("parameter", "argument", "message"),
    [
        ("__half const*", X, "but the plan gives the tensor x of float32 (2 bytes an element against 4)"),
        ("int const*", X, "but the plan gives the tensor x of float32"),
        ("float const*", HALF, "but the plan gives the tensor x of float16 (4 bytes an element against 2)"),
        ("__nv_bfloat16 const*", HALF, "but the plan gives the tensor x of float16"),
        ("Widget const*", X, "pointers to 'Widget' are not known here"),
        ("long", X, "a tensor needs a pointer"),
        ("float const*", N, "a pointer needs a tensor or a scratch buffer"),
        ("int", ScalarArgument(2**31, "n"), "it does not fit (-2147483648 to 2147483647); use a wider type"),
        ("unsigned int", ScalarArgument(-1, "n"), "it does not fit (0 to 4294967295)"),
        ("bool", ScalarArgument(2, "n"), "it does not fit (0 to 1)"),
        ("int", ScalarArgument(0.5, "eps"), "a whole number is needed"),
        ("Config", N, "numbers can be passed as bool, integers, float and double only"),
    ],
)
def test_wrong_types(parameter: str, argument: TensorArgument | ScalarArgument, message: str) -> None:
    (found,) = messages(f"void relu<256>({parameter})", argument)
    assert found.startswith(f"parameter 1 of relu is '{parameter}', but")
    assert message in found


@pytest.mark.parametrize("name", ["__half", "cutlass::half_t", "cute::half_t", "__half2", "uint4", "half"])
def test_half_has_many_spellings(name: str) -> None:
    assert messages(f"void relu<256>({name} const*)", HALF) == []


def test_writing_to_an_input_is_warned_about() -> None:
    signature = "void relu<256>(float*, float*, float*)"
    given = X, OUT, TensorArgument("tmp", "float32")
    assert messages(signature, *given) == []
    assert messages(signature, *given, severity="warning") == [
        "parameter 1 of relu is 'float*', but x is an input and is mapped read-only: write const"
    ]


def test_types_with_commas_and_parentheses_are_one_parameter() -> None:
    types = parse_parameters(
        "void k<256, cute::Layout<cute::tuple<int, int>, cute::C<1>>>(float const*, Pair<int, (bool)1>, long)"
    )
    assert [t.base for t in types] == ["float", "Pair<int, (bool)1>", "long"]


def test_a_kernel_that_was_not_compiled() -> None:
    plan = LaunchPlan((Launch("other", (1, 1, 1), (1, 1, 1), 0, ()),))
    (found,) = check_arguments(plan, [])
    assert found.message == "other was not compiled"
