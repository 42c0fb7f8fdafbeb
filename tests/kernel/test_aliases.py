"""A tensor that is promised to have one way to it is not passed twice."""

from __future__ import annotations

import pytest

from cutegen_core.kernel.aliases import check_restricted, find_restricted
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.launch import Launch, LaunchPlan, TensorArgument
from tests.adversarial.files import ELEMENTS, kernel_file

PARAMETERS = {
    "float const* __restrict__ a, float* b": 1,
    "const float* __restrict a, float* __restrict__ b": 1,
    "float const* a, float* b": 0,
    "float const* __restrict__ a, float const* __restrict__ b": 0,
    "cute::Pair<int, float> const* __restrict__ a, /* a comment, with a comma */ float* b": 1,
}


@pytest.mark.parametrize(("parameters", "errors"), PARAMETERS.items())
def test_a_broken_promise_is_an_error(parameters: str, errors: int) -> None:
    kernel = parse(kernel_file(ELEMENTS, f"__global__ __launch_bounds__(128) void f({parameters}) {{\n}}"))
    twice = (TensorArgument("work", "float32"), TensorArgument("work", "float32"))
    plan = LaunchPlan((Launch("f", (1, 1, 1), (128, 1, 1), 0, twice, (1, 1, 1), False, 5),), (), ())
    assert len(check_restricted(plan, find_restricted(kernel))) == errors
