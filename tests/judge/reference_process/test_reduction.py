"""How sizes shrink where following a forward takes long, and what own infinities of a file are."""

import contextlib
import re

import pytest

from cutegen_core.judge.reference_process import reduction
from cutegen_core.judge.reference_process.forwards import Cost, Forward, ForwardCall, LongForwardError
from cutegen_core.judge.reference_process.reduction import EMULATOR
from cutegen_core.records.errors import ProblemError
from tests.later import Later

torch = Later("torch")
live = Later("cutegen_core.judge.reference_process.loading.live")
tracing = Later("cutegen_core.judge.reference_process.tracing")
worker = Later("cutegen_core.judge.reference_process.worker")
derived_values = Later("cutegen_core.judge.reference_process.derived_values")
expected = Later("cutegen_core.judge.reference_process.expected")

SOURCE = """
steps, width, inner = 4096, 512, 64
class Model:
    pass
def get_inputs():
    pass
"""


class Looping:
    """A probe of a file whose forward has one operation a step, and takes as many seconds of a played clock.

    Args:
        fixed: elements of what does not follow the sizes.
    """

    def __init__(self, fixed=0) -> None:
        self.now, self.steps, self._fixed = 0.0, [], fixed

    def clock(self):
        return self.now

    def forward(self, source, origin):
        steps, width, inner = map(int, re.search(r"= (\d+), (\d+), (\d+)", source).groups())
        self.steps.append(steps)
        self.now += steps / 400
        return Forward(Cost(self._fixed + steps * width, inner), (ForwardCall("step", frozenset(), (width,)),) * steps)

    def run(self, source, origin, values):
        pass

    def leaves_open(self, source, origin, values):
        return False


def test_a_long_loop_is_tried_at_few_steps_first(monkeypatch):
    probe = Looping()
    monkeypatch.setattr(reduction.time, "process_time", probe.clock)
    found = reduction.derive(SOURCE, "here", probe)
    assert probe.now < reduction._SLOW_SECONDS + 11, "no longer than the time for it, and one step more"
    small = {"steps": 4096, "width": 512, **found[0].sizes}
    assert 2 < small["steps"] * small["width"] <= EMULATOR.elements
    assert probe.steps[1] < 10, "the smallest sizes come first"


@pytest.mark.parametrize(("fixed", "loads"), [(0, True), (5_000_000, True), (50_000_000, False)])
def test_what_cannot_shrink_may_be_larger_up_to_a_limit(monkeypatch, fixed, loads):
    """Layers of a network have numbers of their own: 256 * 6 * 6."""
    probe = Looping(fixed)
    monkeypatch.setattr(reduction.time, "process_time", lambda: 0.0)
    if not loads:
        with pytest.raises(
            ProblemError,
            match=r"has 50,0.* elements and .* \(at most 40,000,000 and .* a machine with a GPU takes it\)",
        ):
            reduction.derive(SOURCE, "here", probe)
        return
    small = {"steps": 4096, "width": 512, **reduction.derive(SOURCE, "here", probe)[0].sizes}
    assert small["steps"] * small["width"] <= EMULATOR.elements
    assert fixed == 0 or small["steps"] * small["width"] < 100, "as small as it gets"


def test_a_forward_without_end_is_refused_by_its_number_of_operations(monkeypatch):
    monkeypatch.setattr(tracing, "_MOST_CALLS", 100)
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        for k in range(COUNT):\n"
        "            x = x + 1\n        return x\ndef get_inputs():\n    return [torch.rand(64)]\n"
    )
    assert len(tracing.forward_of(live.instantiate(source.replace("COUNT", "90"), "here")).calls) <= 100
    with pytest.raises(LongForwardError, match=r"here: its forward does more than 100 operations.*smaller"):
        tracing.forward_of(live.instantiate(source.replace("COUNT", "101"), "here"))


def test_a_transposed_convolution_costs_what_each_place_of_its_result_takes():
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, w):\n"
        "        return torch.nn.functional.conv_transpose2d(x, w, stride=(1, 2))\ndef get_inputs():\n"
        "    return [torch.rand(2, 3, 4, 4), torch.rand(3, 5, 5, 4)]\n"
    )
    with tracing.fake_tensors():
        assert tracing.forward_of(live.instantiate(source, "here")).cost.flops == 2 * 2 * (8 * 10) * 3 * 5 * (
            5 * 4 // 2
        )


def test_numbers_that_are_alike_wherever_windows_fit_are_different_once():
    source = (
        "import torch\nbatch, height, width = 64, 56, 56\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        n, h, w = x.shape\n        return x.view(n, h // 7, 7, w // 7, 7).transpose(2, 3).relu()\n"
        "def get_inputs():\n    return [torch.rand(batch, height, width)]\n"
    )
    found = [one.sizes for one in reduction.derive(source, "here", worker._TorchProbe())]
    sides = [(sizes.get("height", 56), sizes.get("width", 56)) for sizes in found]
    assert any(height != width for height, width in sides)
    assert all(height % 7 == width % 7 == 0 for height, width in sides)


def test_the_channels_of_a_depthwise_convolution_stay_alike():
    source = (
        "import torch\nbatch, channels, made, size = 8, 64, 64, 32\nclass Model(torch.nn.Module):\n"
        "    def __init__(self, channels, made):\n        super().__init__()\n"
        "        self.own = torch.nn.Conv2d(channels, made, 3, groups=channels)\n"
        "    def forward(self, x):\n        return self.own(x)\n"
        "def get_inputs():\n    return [torch.rand(batch, channels, size, size)]\n"
        "def get_init_inputs():\n    return [channels, made]\n"
    )
    for one in reduction.derive(source, "here", worker._TorchProbe()):
        assert one.sizes.get("channels", 64) == one.sizes.get("made", 64)


@pytest.mark.parametrize(("squeezed", "smallest"), [("", False), ("-1", True)])
def test_small_sizes_leave_out_the_same_dimensions(squeezed, smallest):
    source = (
        "import torch\nrows, cols = 512, 4096\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        f"        return torch.relu(x.sum(-1, keepdim=True).squeeze({squeezed}))\ndef get_inputs():\n"
        "    return [torch.rand(2, rows, cols)]\n"
    )
    found = reduction.derive(source, "here", worker._TorchProbe())
    assert any(one.sizes.get("rows") == 1 for one in found) is smallest
    assert len(found) > 3


@pytest.mark.parametrize("given", ["", ", is_causal=True", ", attn_mask=torch.ones(16, 32) > 0"])
def test_attention_costs_its_two_products(given):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, q, k, v):\n"
        f"        return torch.nn.functional.scaled_dot_product_attention(q, k, v{given})\ndef get_inputs():\n"
        "    return [torch.rand(2, 3, 16, 64), torch.rand(2, 3, 32, 64), torch.rand(2, 3, 32, 64)]\n"
    )
    for fake in (contextlib.nullcontext, tracing.fake_tensors):
        with fake():
            cost = tracing.forward_of(live.instantiate(source, "here")).cost
        assert cost.flops == 2 * (2 * 2 * 3 * 16 * 32 * 64)


@pytest.mark.parametrize(
    ("forward", "own"),
    [
        ("x.masked_fill(x > 0, float('-inf'))", True),
        ("torch.full((8, 8), float('-inf')).triu(1) + x", True),
        ("torch.where(x > 0, x, torch.tensor(float('nan')))", True),
        ("torch.logsumexp(x.masked_fill(x < 9, -float('inf')), -1)", True),
        ("torch.cat([x, y], 1)", True),
        ("torch.log(x)", False),
        ("x / 0", False),
        ("torch.log(x).masked_fill(x > 0, float('-inf'))", False),
        ("x + 1", False),
    ],
)
def test_infinities_and_nan_are_the_files_own_where_it_writes_or_draws_them(forward, own):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, y):\n"
        f"        return {forward}\ndef get_inputs():\n"
        "    return [torch.randn(8, 8), torch.full((8, 8), float('inf'))]\n"
    )
    one = live.instantiate(source, "here")
    assert derived_values.has_own_specials(one, expected.expect(one).exact) is own
