"""Problems from files: what loads, with which workloads, and why the rest does not."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutegen_core.judge.problem_source import find_size_slots, parse, with_sizes
from cutegen_core.judge.reference import Reference, ReferenceLimits, start_worker
from cutegen_core.problems import library
from cutegen_core.problems.library import Loader, load, load_folder, read_problem
from cutegen_core.problems.read import read
from cutegen_core.records.errors import ProblemError, UsageError
from cutegen_core.records.problem import WHOLE_VALUES, Problem, TensorRole, Tolerance, Values, Workload, WorkloadRole
from tests.problems.judging import assert_judged
from tests.problems.kernelbench_files import BAD, GOOD, SECRET


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All files in one folder, and a secret beside it."""
    root = tmp_path_factory.mktemp("kernelbench")
    secret = tmp_path_factory.mktemp("home") / "token"
    secret.write_text("hunter2")
    for name, source in GOOD.items():
        (root / f"{name}.py").write_text(source)
    for name, (source, _) in BAD.items():
        (root / f"{name}.py").write_text(source.replace(SECRET, str(secret)))
    (root / "_helper.py").write_text("not a problem")
    return root


@pytest.fixture(scope="module")
def loader(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        with Loader(ReferenceLimits(seconds=60, memory_bytes=6 << 30), on_gpu=False) as opened:
            yield opened


@pytest.fixture(scope="module")
def loaded(loader, folder):
    known = {}

    def get(name):
        if name not in known:
            known[name] = loader.load(folder / f"{name}.py")
        return known[name]

    return get


@pytest.fixture
def reference(loaded, shared, tmp_path):
    return lambda name: shared.reference(loaded(name), tmp_path / name)


# -- any KernelBench file ----------------------------------------------------------------------------------------------


def test_there_are_enough_files_to_mean_something():
    assert len(GOOD) >= 25


SOME = [pytest.param(name, marks=pytest.mark.thorough if number % 8 else ()) for number, name in enumerate(GOOD)]
"""One in eight without `--thorough`: loading a file takes half a second of a core."""


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", SOME)
def test_a_file_loads_reduces_and_its_own_answer_passes(name, reference):
    opened = reference(name)
    problem = opened.problem
    small = problem.with_role(WorkloadRole.EMULATOR)
    assert small, problem.workloads
    for workload in small:
        signature = opened.signature(workload)
        assert sum(t.numel for t in signature.tensors) <= 120_000
    assert_judged(opened, small[0])


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", SOME)
def test_the_own_size_is_kept_and_never_allocated(name, reference):
    opened = reference(name)
    (own,) = opened.problem.with_role(WorkloadRole.BENCHMARK)
    assert own.sizes == {}
    signature = opened.signature(own)
    elements = sum(t.numel for t in signature.tensors)
    small = sum(t.numel for t in opened.signature(opened.problem.workloads[0]).tensors)
    assert elements > 10 * small
    graph = opened.graph(own)
    assert graph.reason or graph.outputs
    inputs = [node.name for node in graph.nodes if node.op == "input"]
    assert inputs == ([] if graph.reason else [t.name for t in signature.inputs])


def test_complex_tensors_are_given_as_their_real_and_imaginary_parts(reference):
    opened = reference("rotary_complex")
    (own,) = opened.problem.with_role(WorkloadRole.BENCHMARK)
    given = {t.name: (t.dtype, t.shape) for t in opened.signature(own).inputs}
    assert given["turn"] == ("float32", (64, 2))
    assert given["freqs_cis"] == ("float32", (2048, 64, 2))
    assert opened.graph(own).reason == ""
    assert_judged(opened, opened.problem.workloads[0])


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_loaded_says_why(name, folder, loader):
    limits = loader._limits
    loader._limits = replace(limits, seconds=1.0) if name == "endless_loop" else limits
    with pytest.raises(ProblemError) as caught:
        loader.load(folder / f"{name}.py")
    loader._limits = limits
    assert BAD[name][1] in str(caught.value)
    assert f"{name}.py" in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_a_folder_reports_loaded_of_total_and_leaves_helpers_out(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "19_ReLU.py").write_text(GOOD["elementwise"])
    (tmp_path / "broken.py").write_text("def")
    (tmp_path / "_helper.py").write_text("def")
    lines = []
    listing = load_folder(tmp_path, lines.append)
    assert (listing.loaded, listing.total) == (1, 2)
    assert [e.name for e in listing.entries] == ["broken", "19_ReLU"]
    assert "not valid Python" in listing.entries[0].error
    assert listing.entries[1].problem is not None
    assert lines == ["1 of 2: broken.py", "2 of 2: 19_ReLU.py"]


def test_an_unknown_name_lists_the_built_in_ones():
    with pytest.raises(UsageError, match=r"neither a built-in problem \(.*softmax.*\) nor a saved one nor a file"):
        load("no such thing")
    with pytest.raises(UsageError, match="not a folder"):
        load_folder(Path("/no/such/folder"))


# -- signatures --------------------------------------------------------------------------------------------------------


def names(signature):
    return [spec.name for spec in signature.inputs]


def test_parameters_buffers_and_plain_tensors_are_named_with_underscores(reference):
    opened = reference("gemm_batch_norm_buffers")
    signature = opened.signature(opened.problem.workloads[0])
    assert names(signature) == [
        "x", "scale", "gemm_weight", "gemm_bias", "bn_weight", "bn_bias",
        "bn_running_mean", "bn_running_var", "bn_num_batches_tracked",
    ]  # fmt: skip
    assert signature.tensor("bn_running_var").role is TensorRole.BUFFER
    assert signature.tensor("gemm_weight").role is TensorRole.PARAMETER
    assert signature.scalars["bn_eps"] == pytest.approx(1e-5)
    opened = reference("plain_tensor_attribute")
    assert names(opened.signature(opened.problem.workloads[0])) == ["x", "shift", "mask"]


def test_clashing_names_several_outputs_lists_and_scalars(reference):
    def signature(name):
        opened = reference(name)
        return opened.signature(opened.problem.workloads[0])

    assert names(signature("in_place_and_name_clash")) == ["x", "weight", "weight_"]
    several = signature("several_outputs")
    assert [(t.name, t.dtype) for t in several.outputs] == [("out0", "float32"), ("out1", "int64"), ("out2", "float32")]
    parts = signature("list_of_tensors_and_none")
    assert names(parts) == ["parts_0", "parts_1"]
    assert parts.scalars["scale"] == 0.5
    assert signature("scalar_argument").scalars["s"] == 3.14
    chain = signature("chain_of_scalars").scalars
    assert (chain["multiplier"], chain["act_negative_slope"], chain["low"]) == (2.0, 0.1, -1.5)
    assert signature("loss_to_a_scalar").outputs[0].shape == ()


def test_the_graph_stays_at_the_level_of_the_reference(reference):
    opened = reference("attention_heads")
    graph = opened.graph(opened.problem.workloads[0])
    operations = [node.op for node in graph.nodes]
    assert "aten.scaled_dot_product_attention" in operations
    assert operations.count("aten.linear") == 2
    data_dependent = reference("values_decide_the_path")
    traced = data_dependent.graph(data_dependent.problem.workloads[0])
    assert traced.nodes == ()
    assert traced.reason


def test_the_same_seed_gives_the_same_values_and_another_seed_others(loaded, shared, tmp_path):
    problem = loaded("gemm_batch_norm_buffers")
    workload = problem.workloads[0]
    first, second = (shared.reference(problem, tmp_path / n) for n in ("a", "b"))
    files = [
        {spec.name: path.read_bytes() for spec, path in r.write_inputs(workload, seed).items()}
        for r, seed in ((first, 3), (second, 3), (second, 4))
    ]
    assert files[0] == files[1]
    changed = {name for name in files[0] if files[0][name] != files[2][name]}
    assert {"x", "gemm_weight", "bn_weight"} <= changed, "a weight of ones must not stay ones: ignoring it would pass"


@pytest.mark.parametrize("drawn", [v for v in Values if v is not Values.GIVEN and v not in WHOLE_VALUES])
def test_adversarial_values_look_like_their_name(drawn, loaded, shared, tmp_path):
    problem = loaded("softmax_3d")
    reference = shared.reference(problem, tmp_path)
    workload = replace(problem.workloads[0], name=drawn.value, values=drawn)
    ((_, path),) = reference.write_inputs(workload, 1).items()
    x = np.fromfile(path, dtype=np.float32).reshape(reference.signature(workload).inputs[0].shape)
    rows = x.reshape(-1, x.shape[-1])
    large = np.abs(x).max()
    with np.errstate(all="ignore"):
        looks = {
            Values.LARGE_MEAN: abs(x.mean() - 100) < 2 and x.std() < 2,
            Values.LARGE_SCALE: 500 < x.std() < 2000,
            Values.ONE_HOT: (np.sort(x, axis=-1)[..., -2:] == [0, 1]).all() and set(np.unique(x)) == {0, 1},
            Values.SPARSE: 0 < (x != 0).mean() < 0.15,
            Values.DENORMAL: 0 < large < 2.0**-126,
            Values.NEGATIVE_MEAN: abs(x.mean() + 100) < 2 and x.std() < 2,
            Values.ALL_NEGATIVE: (x < -100).all(),
            Values.WIDE: large > 1e4 and 0 < np.abs(x).min() < 1e-4,
            Values.HUGE: 1e15 < large < 1e17,
            Values.VAST: 1e20 < large < 1e22,
            Values.TINY: 0 < np.abs(rows).max(axis=1).min() < 1e-9,
            Values.SIGNED_ZEROS: 0.2 < (np.signbit(x) & (x == 0)).mean() < 0.3 < 0.4 < (x == 0).mean() < 0.6,
            Values.NEAR_CONSTANT: 0 < rows.std(axis=1).max() < 0.03 and rows.mean(axis=1).std() > 1,
            Values.CONSTANT: (rows == rows[:, :1]).all() and (rows[0] == 0).all() and len(np.unique(x)) > 10,
            Values.DOMINANT: ((rows >= 1e4).sum(axis=1) == 1).all() and rows[0, -1] >= 1e4 and rows[1, 0] >= 1e4,
            Values.DOMINANT_ACROSS: ((x >= 1e4).sum(axis=0) == 1).all(),
            Values.CANCELLING: large > 500 and np.abs(rows.astype(np.float64).sum(axis=1)).max() < 100,
            Values.SORTED: (np.diff(rows[0]) >= 0).all() and (np.diff(rows[1]) <= 0).all(),
            Values.SLICE: 0 < (x > 16).mean() < 0.05 and large > 100,
            Values.EXACT: (x * 8 == np.round(x * 8)).all() and large == 5 and len(np.unique(x)) > 60,
            Values.PARAMETERS: abs(x.mean()) < 1 and 0.1 < x.std() < 2,
            Values.NAN: 0 < np.isnan(x).mean() < 0.1,
            Values.INFINITE: 0 < np.isinf(x).mean() < 0.3 and (np.isneginf(rows).all(axis=1)).sum() == 1,
        }
    assert looks[drawn]


def test_a_file_whose_values_change_under_the_same_seed_is_refused(tmp_path):
    """The worker keeps the values of the last few seeds only."""
    draw = "torch.rand(batch_size, dim)"
    source = "import time\n" + GOOD["elementwise"].replace(draw, f"{draw} + time.time_ns() % 10007")
    workload = Workload("own", WorkloadRole.EMULATOR, {"batch_size": 4, "dim": 7})
    worker = start_worker(tmp_path)
    reference = Reference(Problem("clock", "clock", source, "clock.py", (workload,)), tmp_path, worker=worker)
    for seed in range(1, 6):
        reference.write_inputs(workload, seed)
    (spec,) = reference.signature(workload).outputs
    out = tmp_path / "out.bin"
    out.write_bytes(bytes(spec.nbytes))
    with pytest.raises(ProblemError, match="other values under the same seed"):
        reference.compare(workload, 1, {spec: out})
    worker.close()


# -- literals in the file ----------------------------------------------------------------------------------------------


def written(tmp_path, literals):
    path = tmp_path / "mine.py"
    path.write_text(GOOD["matmul"] + "\n" + literals)
    return path


def test_workloads_tolerance_allow_and_title_are_read_without_running_the_file(tmp_path):
    path = written(
        tmp_path,
        'raise SystemExit("was run")\nTITLE = "My product"\nALLOW = ("tf32",)\n'
        'TOLERANCE = {"float32": {"atol": 1e-3, "rtol": 1e-2}}\n'
        'WORKLOADS = {"odd": {"role": "emulator", "M": 3, "K": 5, "N": 7, "values": "sparse"}}\n',
    )
    problem = load(str(path))
    assert (problem.name, problem.title, problem.allow) == ("mine", "My product", ("tf32",))
    assert problem.tolerance_for("float32") == Tolerance(1e-3, 1e-2)
    odd, own = problem.workloads
    assert (odd.sizes, odd.values) == ({"M": 3, "K": 5, "N": 7}, Values.SPARSE)
    assert (own.role, own.sizes) == (WorkloadRole.BENCHMARK, {})


def test_an_outputs_name_comes_before_its_dtype_and_a_workloads_tolerance_before_the_problems(tmp_path):
    path = written(
        tmp_path,
        'TOLERANCE = {"float32": {"atol": 1.0, "rtol": 0.1}, "out1": {"atol": 2.0, "rtol": 0.2}}\n'
        'WORKLOADS = {"a": {"role": "emulator", "tolerance": {"float32": {"atol": 3, "rtol": 0.3}}},\n'
        '  "b": {"role": "emulator", "tolerance": {"out0": {"atol": 4, "rtol": 0}}}}\n',
    )
    problem = library.read_problem(path)
    a, b, own = problem.workloads
    found = [
        [problem.tolerance_for("float32", output, workload).atol for output in ("out0", "out1")]
        for workload in (a, b, own, None)
    ]
    assert found == [[3.0, 3.0], [4.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    assert problem.tolerance_for("int64", "out7") == Tolerance(0.0, 0.0)
    plain = replace(problem, workloads=(replace(a, tolerance={}), b, own))
    assert plain.key != problem.key


@pytest.mark.parametrize("place", ["TOLERANCE", "a workload"])
def test_a_tolerance_for_an_output_that_is_none_is_refused_by_name_once_the_outputs_are_known(tmp_path, shared, place):
    given = '{"out1": {"atol": 1.0, "rtol": 0.1}}'
    own = f', "tolerance": {given}' if place == "a workload" else ""
    stated = f"TOLERANCE = {given}\n" if place == "TOLERANCE" else ""
    path = written(tmp_path, f'{stated}WORKLOADS = {{"odd": {{"role": "emulator", "M": 3, "K": 5, "N": 7{own}}}}}\n')
    problem = load(str(path))
    with pytest.raises(ProblemError, match=r"mine\.py: a tolerance is for 'out1', which is no output \(outputs: out\)"):
        shared.reference(problem).signature(problem.workloads[0])


@pytest.mark.parametrize(
    ("literals", "words"),
    [
        ("WORKLOADS = make()", ":23: WORKLOADS must be a plain literal"),
        ("WORKLOADS = [1]", ":23: WORKLOADS is a list"),
        ('WORKLOADS = {"a": {"role": "fast"}}', "roles: emulator, correctness, benchmark"),
        ('WORKLOADS = {"a": {"role": "emulator", "Q": 3}}', "sets 'Q', which is no size of this file (sizes: M, K, N)"),
        ('WORKLOADS = {"a": {"role": "emulator", "M": "3"}}', "sets M = '3', but the file has 2048"),
        ('WORKLOADS = {"a": {"role": "emulator", "values": "odd"}}', "values: given, large_mean"),
        (
            'TOLERANCE = {"float31": {"atol": 1, "rtol": 1}}',
            "TOLERANCE maps an output (out, out0, out1, ...) or one of float64",
        ),
        ('TOLERANCE = {"float32": {"atol": 1}}', "needs atol and rtol"),
        ("ALLOW = (1, 2)", "ALLOW is a tuple of words"),
        ("TITLE = 3", "TITLE is a int"),
    ],
)
def test_a_malformed_literal_is_refused_with_file_and_line(literals, words, tmp_path):
    with pytest.raises(ProblemError) as caught:
        load(str(written(tmp_path, literals)))
    assert words in str(caught.value)
    assert "mine.py:" in str(caught.value)


def test_a_byte_order_mark_is_no_character_of_a_problem(tmp_path):
    path = tmp_path / "marked.py"
    path.write_text("\ufeff" + GOOD["elementwise"], encoding="utf-8")
    assert read_problem(path).source == GOOD["elementwise"]
    assert read("\ufeff" + GOOD["elementwise"], "pasted", "here").source == GOOD["elementwise"]


def test_a_pipe_that_a_problem_names_is_not_waited_for(tmp_path):
    (tmp_path / "named.py").write_text(GOOD["elementwise"] + '\nEXISTING = "pipe.cu"\n')
    os.mkfifo(tmp_path / "pipe.cu")
    with pytest.raises(ProblemError, match=r"pipe\.cu: cannot be read: it is a folder, a pipe or a device"):
        read_problem(tmp_path / "named.py")


def test_files_that_are_no_text_or_too_large_are_refused(tmp_path):
    path = tmp_path / "odd.py"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ProblemError, match="not UTF-8"):
        load(str(path))
    path.write_text("#" * (2 << 20))
    with pytest.raises(ProblemError, match="larger than 256 KiB"):
        load(str(path))


# -- sizes in the source -----------------------------------------------------------------------------------------------


def test_sizes_are_found_folded_and_replaced_in_place():
    source = (
        "import torch\nM = 2 * 1024\nN = M * 2\na, b = 16, 32\nshape = (3,\n  64)\nk: int = 1 << 4\n"
        "height = width = 128\nWORKLOADS = {'small': {'M': 3}}\n"
        "config = {'hidden': 4096, 'eps': 1e-5}\nother = dict(heads=12)\nwidths = [8, 16]\nflag = True\n"
        "class Model:\n    def run(self, x):\n        return x.view(-1, 77)[:, 11]\n"
        "\ndef get_inputs():\n    x = torch.rand(512, M)[:, 3]  # größer\n    return [x, 99]\n"
    )
    slots = find_size_slots(parse(source, "here"))
    found = {name: slot.value for name, slot in slots.items()}
    assert found == {
        "M": 2048, "N": 4096, "a": 16, "b": 32, "shape": (3, 64), "k": 16, "height": 128, "width": 128,
        "config.hidden": 4096, "config.eps": 1e-5, "other.heads": 12, "widths": (8, 16),
        "get_inputs#0": 512, "get_inputs#1": 99, "Model#1": 77, "N#0": 2,
    }  # fmt: skip
    assert slots["N"].derived
    sizes = {"M": 3, "b": 5, "shape": (7, 9), "width": 11, "config.hidden": 13, "widths": (1, 2), "get_inputs#1": 4}
    changed = with_sizes(source, slots, sizes)
    assert changed.count("\n") == source.count("\n")
    again = {name: slot.value for name, slot in find_size_slots(parse(changed, "here")).items()}
    assert again == found | sizes | {"N": 6, "height": 11}


@pytest.mark.parametrize(
    ("line", "found", "changed", "written"),
    [
        ("x = [1024] * 16", {"x": (1024,) * 16}, {"x": (61,) * 3}, "x = [61, 61, 61]"),
        ("x = 3 * (7, 9)", {"x": (7, 9) * 3}, {"x": (5,)}, "x = (5,)"),
        ("x = [64] + [N] * 2", {"x": (64, 32, 32), "x#0": 64, "x#1": 2}, {"x#0": 5}, "x = [5] + [N] * 2"),
        ("x = int(1e6)", {"x": 1000000}, {"x": 7}, "x = 7"),
        ("x = max(N, len(LIST), 4096)", {"x": 4096, "x#0": 4096}, {"x#0": 5}, "x = max(N, len(LIST), 5)"),
        ("x = (N, 4096)", {"x": (32, 4096), "x#0": 4096}, {"x#0": 5}, "x = (N, 5)"),
        ("x = (N, 4096)", {"x": (32, 4096), "x#0": 4096}, {"x#0": 5, "x": (3, 7)}, "x = (3, 7)"),
        ("x = (*LIST, 4096)", {"x": (48, 64, 4096), "x#0": 4096}, {"x#0": 5}, "x = (*LIST, 5)"),
        ("x = [('conv', 64), ('pool', 2)]", {"x#0": 64, "x#1": 2}, {"x#0": 5}, "x = [('conv', 5), ('pool', 2)]"),
        ("x = Config(hidden=768, fill=-100)", {"x#0": 768}, {"x#0": 5}, "x = Config(hidden=5, fill=-100)"),
        ("x = {'cfg': [[64, 3], [N]]}", {"x.cfg#0": 64, "x.cfg#1": 3}, {"x.cfg#0": 5}, "x = {'cfg': [[5, 3], [N]]}"),
        ("x = [N * 2**i for i in range(12)]", {"x#0": 2, "x#1": 12}, {"x#1": 5}, "x = [N * 2**i for i in range(5)]"),
        ("x = [1] * 10**9", {"x#0": 1, "x#1": 10, "x#2": 9}, {"x#1": 2}, "x = [1] * 2**9"),
        ("x = int('9' * 10)", {"x#0": 10}, {"x#0": 2}, "x = int('9' * 2)"),
        ("x = sum(3)", {"x#0": 3}, {}, "x = sum(3)"),
    ],
)  # fmt: skip
def test_sizes_are_found_in_whatever_is_computed_of_them(line, found, changed, written):
    """Take what Python computes of numbers as one size, and the numbers in what it computes of others as more."""
    before = "N = 32\nLIST = [48, 64]\n"
    source = f"{before}{line}\nclass Model: pass\ndef get_inputs(): pass\n"
    slots = find_size_slots(parse(source, "here"))
    assert {name: slot.value for name, slot in slots.items()} == {"N": 32, "LIST": (48, 64), **found}
    assert with_sizes(source, slots, changed) == source.replace(line, written)


def test_a_list_that_grows_without_end_is_no_size():
    doubled = "".join(f"a{n} = a{n - 1} + a{n - 1}\n" for n in range(1, 60))
    lines = f"a0 = [1]\n{doubled}b = [1] * 64 * 64 * 64 * 64 * 64\nc = (*a12, *a12)\nd = torch.tensor({[9] * 100})\n"
    slots = find_size_slots(parse(f"{lines}class Model: pass\ndef get_inputs(): pass\n", "here"))
    assert max(len(slot.value) for slot in slots.values() if isinstance(slot.value, tuple)) == 4096
    assert not any(name.startswith("d#") for name in slots)


def test_a_number_of_an_expression_over_other_sizes_shrinks(loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(
        "import torch\nbatch = 512\nshape = (batch, 40000)\nlayers = [1024] * 3\n"
        "class Model(torch.nn.Module):\n    def __init__(self, layers):\n        super().__init__()\n"
        "        self.all = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(layers[:-1], layers[1:]))\n"
        "    def forward(self, x, y):\n        for each in self.all:\n            y = each(y)\n"
        "        return x.sum(), y\n"
        "def get_inputs():\n    return [torch.rand(shape), torch.rand(batch, layers[0])]\n"
        "def get_init_inputs():\n    return [layers]\n"
    )
    small = loader.load(path).workloads[0].sizes
    assert small["shape#0"] < 40000
    assert len(small["layers"]) == 3
    assert max(small["layers"]) < 1024


@pytest.mark.parametrize("heads", [8, pytest.param(12, marks=pytest.mark.thorough)])
def test_one_small_workload_has_heads_of_whole_vectors_as_the_file_has(heads, loader, tmp_path):
    """Else the kernels that read vectors would be launched at the file's own sizes alone, which only a GPU runs."""
    path = tmp_path / "file.py"
    path.write_text(
        f"import torch\nbatch, longest, length, width, heads = 128, 1024, 512, 768, {heads}\n"
        "class Model(torch.nn.Module):\n    def __init__(self, longest, width, heads):\n        super().__init__()\n"
        "        self.heads, self.qkv = heads, torch.nn.Linear(width, 3 * width)\n"
        "        self.register_buffer('mask', torch.tril(torch.ones(longest, longest)))\n"
        "    def forward(self, x):\n        b, t, c = x.shape\n"
        "        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)\n"
        "        scores = (q @ k.transpose(-2, -1)).masked_fill(self.mask[:t, :t] == 0, float('-inf'))\n"
        "        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)\n"
        "def get_inputs():\n    return [torch.rand(batch, length, width)]\n"
        "def get_init_inputs():\n    return [longest, width, heads]\n"
    )
    small = loader.load(path).with_role(WorkloadRole.EMULATOR)
    depths = [w.sizes.get("width", 768) // w.sizes.get("heads", heads) for w in small]
    assert any(depth % 4 == 0 for depth in depths), depths
    assert any(depth % 4 for depth in depths), depths


@pytest.mark.parametrize(
    ("name", "sizes", "others"),
    [
        ("numbers_in_the_model", {512, 2048}, {20}),
        pytest.param("numbers_in_forward", {512, 1536, 64}, {100}, marks=pytest.mark.thorough),
        pytest.param("numbers_of_an_embedding", {30000, 256}, set(), marks=pytest.mark.thorough),
    ],
)
def test_of_the_numbers_in_a_class_those_shrink_that_are_sizes(folder, loader, name, sizes, others):
    problem = loader.load(folder / f"{name}.py")
    slots = find_size_slots(parse(problem.source, problem.origin))
    set_by = [{slots[size].value for size in w.sizes if slots[size].inside} for w in problem.workloads]
    assert set_by[0] == sizes
    assert not any(others & one for one in set_by)
    reduced = problem.workloads[0].sizes
    alike = [{new for size, new in reduced.items() if slots[size].value == value} for value in sizes]
    assert all(len(values) == 1 for values in alike), "a number in several places is one size"


def test_a_network_whose_layers_have_numbers_of_their_own_is_as_large_as_the_emulator_takes(loader, tmp_path):
    """Parameters are most of a network such as ResNet-18, of 11 million: its batch and its image alone shrink."""
    path = tmp_path / "layers.py"
    path.write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = torch.nn.Sequential(*(torch.nn.Linear(7**4, 7**4) for _ in range(2)))\n\n"
        "    def forward(self, x):\n        return self.layers(x)\n\n\nbatch = 256\n\n\n"
        "def get_inputs():\n    return [torch.randn(batch, 7**4)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    problem = loader.load(path)
    small = problem.with_role(WorkloadRole.EMULATOR)
    assert small[0].sizes["batch"] <= 3
    with Reference(problem, tmp_path / "work") as opened:
        assert_judged(opened, small[0])


def layers_of(width, batch):
    return (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layers = torch.nn.Linear({width}, {width}, bias=False)\n\n"
        "    def forward(self, x):\n        return self.layers(x)\n\n\n"
        f"def get_inputs():\n    return [torch.randn({batch}, {width})]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def test_a_file_without_a_number_that_shrinks_is_tested_at_its_own_sizes(loader, tmp_path):
    """Its sizes are small numbers, and yet it costs more than what a test costs where sizes shrink."""
    (tmp_path / "small_numbers.py").write_text(layers_of("7**4", 1))
    small = loader.load(tmp_path / "small_numbers.py").with_role(WorkloadRole.EMULATOR)
    assert not small[0].sizes


def test_what_is_too_large_for_the_emulator_is_loaded_where_there_is_a_gpu(loader, tmp_path):
    path = tmp_path / "large.py"
    path.write_text(layers_of("8**4 * 3", 64))
    with pytest.raises(ProblemError, match=r"on the emulator; a machine with a GPU takes it"):
        loader.load(path)
    loader.worker.close()
    with Loader(on_gpu=True) as opened:
        assert opened.load(path).with_role(WorkloadRole.EMULATOR)


def test_existing_kernel_is_read_from_the_file_beside_it(tmp_path):
    source = load("relu").source
    (tmp_path / "mine.py").write_text(source + '\nEXISTING = "mine.cu"\n')
    (tmp_path / "mine.cu").write_text("/* cutegen */")
    found = library.read_problem(tmp_path / "mine.py")
    assert found.existing == "/* cutegen */"
    (tmp_path / "mine.cu").write_text("/* another */")
    assert library.read_problem(tmp_path / "mine.py").key != found.key


@pytest.mark.parametrize("name", ["../mine.cu", "/etc/passwd", "mine.txt", "there is none.cu", "none.cu"])
def test_existing_kernel_elsewhere_or_missing_is_refused_by_name(tmp_path, name):
    (tmp_path / "mine.py").write_text(load("relu").source + f"\nEXISTING = {name!r}\n")
    with pytest.raises(ProblemError, match=name.rpartition("/")[2]):
        library.read_problem(tmp_path / "mine.py")
