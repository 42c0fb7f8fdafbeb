"""Derived workloads keep what divides a size in one test and break it in another, also where a file ties its sizes."""

import pytest

from cutegen_core.judge import problem_source
from cutegen_core.problems.library import Loader
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import WorkloadRole
from tests.problems.kernelbench_files import GOOD

TIED = """import torch
class Model(torch.nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        assert channels % heads == 0 and channels // heads % 4 == 0
    def forward(self, x):
        return torch.softmax(x.unflatten(-1, (self.heads, -1)), -1)
batch, channels, heads = 4096, 768, 12
def get_inputs():
    return [torch.rand(batch, channels)]
def get_init_inputs():
    return [channels, heads]
"""

MARKED = """import torch
import torch.nn.functional as F
rows, classes = 4096, 1000
class Model(torch.nn.Module):
    def forward(self, x, target):
        return F.cross_entropy(x, target, ignore_index=-100, label_smoothing=0.1)
def get_inputs():
    return [torch.randn(rows, classes), torch.where(torch.rand(rows) < 0.2, -100, torch.randint(0, classes, (rows,)))]
def get_init_inputs():
    return []
"""
HALVES = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, 1)
        return a * torch.sigmoid(b)
rows, columns = 50, 32
def get_inputs():
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return []
"""
ATTENTION = """import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
batch, heads, tokens, width = 32, 16, 512, 64
def get_inputs():
    return [torch.rand(batch, heads, tokens, width) for _ in range(3)]
def get_init_inputs():
    return []
"""
SHARED_KEYS = """import torch
import torch.nn.functional as F
batch, heads, kv_heads, tokens, width = 32, 32, 8, 512, 64
class Model(torch.nn.Module):
    def forward(self, q, k, v):
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v)
def get_inputs():
    return [torch.rand(batch, n, tokens, width) for n in (heads, kv_heads, kv_heads)]
def get_init_inputs():
    return []
"""
WINDOW = """import torch
rows, tokens, window = 16, 2048, 256
class Model(torch.nn.Module):
    def forward(self, x, codes):
        away = torch.arange(tokens)[:, None] - torch.arange(tokens)
        near = (away >= 0) & (away < window)
        return torch.softmax((x[:, :, None] + x[:, None]).masked_fill(~near, -torch.inf), -1).sum(-1) + codes
def get_inputs():
    return [torch.randn(rows, tokens), torch.randint(0, 256, (rows, tokens), dtype=torch.uint8)]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def loader():
    with Loader() as made:
        yield made


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", ["elementwise", "matmul", "asserted_relation", "attention_heads", "tied"])
def test_divisibility_is_kept_in_one_test_and_broken_in_another(name, loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(TIED if name == "tied" else GOOD[name])
    problem = loader.load(path)
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    large = [n for n, slot in slots.items() if isinstance(slot.value, int) and slot.value > 8 and not slot.derived]
    small = problem.with_role(WorkloadRole.EMULATOR)
    sizes = [{n: w.sizes.get(n, slots[n].value) for n in large} for w in small]
    assert any(all(value % 4 == 0 for value in one.values()) for one in sizes), sizes
    assert any(any(value % 4 for value in one.values()) for one in sizes), sizes


def test_a_number_that_marks_something_is_no_size(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(MARKED)
    problem = loader.load(path)
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    assert "get_inputs#0" not in slots
    assert "get_inputs#1" in slots, "the others keep their numbers"
    assert all("get_inputs#0" not in workload.sizes for workload in problem.workloads)


STEP = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, step):
        return x / (1 - 0.9 ** step)
width = 512
def get_inputs():
    return [torch.randn(4096, width), GIVEN]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("given", ["1000", "count"])
def test_a_number_that_is_an_input_itself_is_no_size(loader, tmp_path, given):
    path = tmp_path / "file.py"
    path.write_text(STEP.replace("GIVEN", given) + ("" if given == "1000" else "count = 1000\n"))
    changed = {name for workload in loader.load(path).workloads for name in workload.sizes}
    assert changed == {"get_inputs#0", "width"}


SIDES = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.einsum('bijk, bxijk -> bxjk', x, torch.stack([x] * 3, 1))
def get_inputs():
    return [torch.rand(6, 3, 211, 187)]
"""


def test_sides_that_are_odd_in_the_file_are_odd_together_in_a_small_workload(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(SIDES)
    places = ("get_inputs#2", "get_inputs#3")
    own = dict(zip(places, (211, 187), strict=True))
    small = [{**own, **w.sizes} for w in loader.load(path).workloads if w.role is WorkloadRole.EMULATOR]
    assert any(sizes[places[0]] * sizes[places[1]] % 2 for sizes in small), small


UNEQUAL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, a, b):
        return a + b
def get_inputs():
    return [torch.randn(64, 2000), torch.randn(64, 2001)]
"""


def test_a_file_that_fails_at_its_own_sizes_is_refused(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(UNEQUAL)
    with pytest.raises(ProblemError, match=r"file.py:5: RuntimeError: .*2001"):
        loader.load(path)


UNDERLINED = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, w, i):
        return x @ w + i
M = 2048
K = 512
N = 4096
def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N), torch.randint(0, 1_000, (N,))]
"""


def test_a_number_may_be_written_with_underlines(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(UNDERLINED)
    assert len(loader.load(path).workloads) > 1


def test_a_small_file_does_the_same_at_its_derived_sizes(loader, tmp_path):
    """Of an odd size the halves are not equally long, and the shorter one would be broadcast at 3."""
    path = tmp_path / "file.py"
    path.write_text(HALVES)
    sizes = [workload.sizes.get("columns", 32) for workload in loader.load(path).workloads]
    assert len(set(sizes)) > 1
    assert all(size % 2 == 0 for size in sizes), sizes


def test_few_products_of_larger_matrices_are_tested_not_many_of_tiny_ones(loader, tmp_path):
    """What tiles do shows within a matrix; a batch of products shows with two or three of them."""
    path = tmp_path / "file.py"
    path.write_text(ATTENTION)
    small = {w.name: w.sizes for w in loader.load(path).workloads if w.role is not WorkloadRole.BENCHMARK}
    for name in ("reduced", "medium"):
        assert (small[name]["batch"], small[name]["heads"]) == (3, 2), name
    assert small["even"]["batch"] == small["even"]["heads"] == 4
    assert small["medium"]["tokens"] > 128


def test_heads_that_share_keys_go_on_doing_so(loader, tmp_path):
    """Where each has its own, a kernel may take those of another."""
    path = tmp_path / "file.py"
    path.write_text(SHARED_KEYS)
    small = [w for w in loader.load(path).workloads if w.role is not WorkloadRole.BENCHMARK and w.name != "smallest"]
    assert {w.name for w in small} >= {"reduced", "medium"}
    for workload in small:
        assert workload.sizes.get("heads", 32) > 8, workload
        assert workload.sizes["batch"] < 5, workload


def test_a_window_stays_as_short_beside_its_rows_and_drawn_bytes_stay_bytes(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(WINDOW)
    small = {w.name: w.sizes for w in loader.load(path).workloads if w.role is not WorkloadRole.BENCHMARK}
    for name in ("reduced", "even", "medium"):
        assert 2 <= small[name]["window"] <= max(2, small[name]["tokens"] // 7), small[name]
        assert "get_inputs#0" not in small[name]


SMALL_BATCH = """import torch
import torch.nn as nn
batch, channels, filters, taps, side = 8, 6, 32, 5, 64
class Model(nn.Module):
    def __init__(self, channels, filters, taps):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, taps)
    def forward(self, x):
        return torch.relu(self.conv(x))
def get_inputs():
    return [torch.rand(batch, channels, side, side)]
def get_init_inputs():
    return [channels, filters, taps]
"""


def test_of_small_numbers_only_the_batch_of_products_shrinks(loader, tmp_path):
    """Each of its elements takes whole tiles; channels and filter sizes of a few are what the file is about."""
    path = tmp_path / "file.py"
    path.write_text(SMALL_BATCH)
    small = {w.name: w.sizes for w in loader.load(path).workloads if w.role is not WorkloadRole.BENCHMARK}
    assert [small[name].get("batch") for name in ("reduced", "even", "medium")] == [2, 4, 3]
    assert not any({"channels", "taps"} & set(sizes) for sizes in small.values()), small


FILE = """import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    {model}
def get_inputs():
    return [{inputs}]
"""


def sizes_of(loader, path, model, inputs):
    path.write_text(FILE.format(model=model, inputs=inputs))
    return [w.sizes for w in loader.load(path).workloads if w.role is not WorkloadRole.BENCHMARK]


def test_what_is_padded_is_not_cropped_at_small_sizes(loader, tmp_path):
    forward = "def forward(self, x, y): return F.pad(x, [0, y.shape[1] - 2 * x.shape[1] + x.shape[1]]) + y"
    found = sizes_of(loader, tmp_path / "file.py", forward, "torch.randn(640, 47), torch.randn(640, 95)")
    assert found
    for sizes in found:
        assert sizes.get("get_inputs#3", 95) >= sizes.get("get_inputs#1", 47), sizes


def test_no_size_leaves_a_result_without_elements(loader, tmp_path):
    forward = "def forward(self, x): return torch.softmax(x.view(x.shape[0], 8, x.shape[1] // 8), -1)"
    for sizes in sizes_of(loader, tmp_path / "file.py", forward, "torch.randn(4096, 512)"):
        assert sizes.get("get_inputs#1", 512) >= 8, sizes


def test_defaults_of_a_forward_stay(loader, tmp_path):
    forward = "def forward(self, x, begin: int = 500, *, rows: int = 300): return torch.relu(x[:rows, begin:])"
    for sizes in sizes_of(loader, tmp_path / "file.py", forward, "torch.randn(512, 640)"):
        assert not [name for name in sizes if name.startswith("Model#")], sizes


MASKED = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.exp()
def get_inputs():
    x = torch.rand(800, 640)
    x[torch.rand(800, 640) < 0.1] = 0
    return [x]
"""


def test_sizes_of_a_call_in_an_index_shrink(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(MASKED)
    small = [w.sizes for w in loader.load(path).workloads if w.role is WorkloadRole.EMULATOR]
    assert small
    for sizes in small:
        assert sizes["get_inputs#0"] == sizes["get_inputs#2"] < 800, sizes
        assert sizes["get_inputs#1"] == sizes["get_inputs#3"] < 640, sizes
