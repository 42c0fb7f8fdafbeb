"""Adversarial inputs are drawn where the tensors are, whatever torch makes new tensors on."""

import pytest

from cutegen_core.records.problem import Values
from tests.later import Later

torch = Later("torch")
values = Later("cutegen_core.judge.reference_process.values")
drawing = Later("cutegen_core.judge.reference_process.drawing")
derived = Later("cutegen_core.judge.reference_process.derived_values")
live = Later("cutegen_core.judge.reference_process.loading.live")

SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(16, device="cpu"))

    def forward(self, x, y):
        return x * self.weight + y

def get_inputs():
    return [torch.randn(8, 16, device="cpu"), torch.randn(8, 16, device="cpu").half()]
"""


@pytest.fixture
def elsewhere():
    """New tensors are made on another device than the reference's are, as in the judge on a GPU for files that name the
    CPU."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


@pytest.mark.parametrize("drawn", list(Values))
def test_values_are_the_same_whatever_the_default_device_is(drawn, request):
    here = values.instantiate_drawn(SOURCE, "here", drawn, 3).tensors
    request.getfixturevalue("elsewhere")
    there = values.instantiate_drawn(SOURCE, "here", drawn, 3).tensors
    for name, tensor in here.items():
        assert (there[name].device.type, there[name].dtype) == ("cpu", tensor.dtype)
        assert torch.equal(there[name].isnan(), tensor.isnan()), name
        assert torch.equal(there[name].nan_to_num(), tensor.nan_to_num()), name


def test_a_constant_parameter_is_moved_where_it_is(elsewhere):
    assert live.instantiate(SOURCE, "here").tensors["weight"].unique().numel() > 8


def test_what_a_kernel_may_leave_out_is_moved_and_nothing_else():
    made = {
        "zeros": "torch.zeros(9)", "ones": "torch.ones(9)", "small": "torch.full((9,), 1e-5)", "eye": "torch.eye(4)",
        "mask": "torch.ones(4, 4).tril()", "closed": "torch.full((4,), -torch.inf)",
        "whole": "torch.zeros(4, dtype=int)",
    }  # fmt: skip
    text = "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += "".join(f"        self.register_buffer({name!r}, {value})\n" for name, value in made.items())
    text += "        self.way = torch.nn.Parameter(torch.eye(4))\n        self.scale = torch.ones(3)\n"
    text += "    def forward(self, x):\n        return x\ndef get_inputs():\n    return [torch.randn(3)]\n"
    found = live.instantiate(text, "here").tensors
    for name in ("eye", "mask", "closed", "whole"):  # a mask is none any more with other numbers
        assert torch.equal(found[name], eval(made[name], {"torch": torch})), name
    assert found["zeros"].unique().numel() > 6
    assert found["scale"].unique().numel() > 1
    assert 0.4 < found["ones"].min() < found["ones"].max() < 1.6
    assert 0 < found["small"].min() < found["small"].max() < 2e-5
    assert found["way"].unique().numel() > 12


@pytest.mark.parametrize(
    ("name", "names"),
    [("größe", {"grose"}), ("α", {"alpha"}), ("Ω, ω", {"omega", "omega_"}), ("重", {"ideograph_91cd"})],
)
def test_names_of_any_alphabet_are_written_in_ascii(name, names):
    text = f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, {name}):\n        return 1\n"
    text += f"def get_inputs():\n    return [torch.ones(1)] * {1 + name.count(',')}\n"
    assert set(live.instantiate(text, "here").tensors) == names


def test_seeding_gives_the_numbers_of_torchs_own_and_keeps_no_record_of_it():
    torch.manual_seed(5)
    wanted, recorded = torch.rand(3), len(torch.cuda._queued_calls)
    live.seed_torch(5)
    assert torch.equal(torch.rand(3), wanted)
    assert len(torch.cuda._queued_calls) == recorded


@pytest.mark.parametrize("rows", [2, 3, 9])
def test_infinities_of_both_signs_are_drawn_whatever_the_seed(rows):
    """Were they all negative, as masks are, what becomes of a positive one would not be tried."""
    for seed in range(30):
        drawn = drawing.draw_special(torch.randn(rows, 64), Values.INFINITE, torch.Generator().manual_seed(seed))
        assert (drawn == torch.inf).any()
        assert (drawn == -torch.inf).any()


EVERY_DRAW = {
    "number": "torch.randn(())", "8-bit number": "torch.randn(()).to(torch.float8_e4m3fn)",
    "bool": "torch.rand(()) < 0.5",
    "one": "torch.randn(1)", "none": "torch.randn(0, 3)", "no columns": "torch.randn(3, 0)",
    "infinite": "torch.full((3, 4), torch.inf)", "not a number": "torch.full((33,), torch.nan)",
    "infinite number": "torch.tensor(-torch.inf)", "largest": "torch.randn(5) * 3e38",
    "64 bits": "torch.randint(-2**63, 2**63 - 1, (33,))",
    "last of 64 bits": "torch.randint(2**63 - 3, 2**63 - 1, (5,)) + 1",
    "32 bits": "torch.randint(-2**31, 2**31 - 1, (3, 4), dtype=torch.int32) + 1",
    "whole number": "torch.randint(0, 9, ())",
    "bytes": "torch.randint(0, 256, (33,), dtype=torch.uint8)", "order": "torch.randperm(7)",
}  # fmt: skip


@pytest.mark.parametrize("inputs", EVERY_DRAW.values(), ids=EVERY_DRAW)
def test_every_kind_of_values_is_drawn_for_every_shape_and_number(inputs):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x.float() if x.dtype is torch.float8_e4m3fn else x.clone()\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )
    dict(derived.find_derived(source, "here", finite=False))
    given = live.instantiate(source, "here").tensors["x"]
    for drawn in Values:
        tensor = values.instantiate_drawn(source, "here", drawn, 3).tensors["x"]
        assert (tensor.shape, tensor.dtype) == (given.shape, given.dtype)


@pytest.mark.parametrize("constant", [1e-307, 2.2e-308, 1e-12])
def test_halves_are_numbers_that_sums_hold(constant):
    halves = drawing.halves_behind((0.5, constant))
    assert halves
    assert max(map(abs, halves)) <= 1e4
