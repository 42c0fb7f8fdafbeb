"""Bytes and FLOPs counted on traced graphs, against numbers worked out by hand, and what the bounds forbid."""

import pytest

from cutegen_core.evaluate.roofline import bounds
from cutegen_core.evaluate.roofline.regions import ElementSet, Triangle
from cutegen_core.evaluate.roofline.work import compulsory_work, graph_work, stated, unfused_bytes
from cutegen_core.problems import library
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.graph import InputFacts
from cutegen_core.records.performance import Conditions, Peaks, Timing, WorkloadPerformance
from tests.later import Later
from tests.problems.kernelbench_files import GOOD, _file

tracing = Later("cutegen_core.judge.reference_process.tracing")
worker = Later("cutegen_core.judge.reference_process.worker")
reading = Later("cutegen_core.judge.reference_process.input_facts")

L2 = 60 << 20
H200 = Peaks(
    "NVIDIA H200", 4.23e12, 4.61e12, {"fp32": 51e12, "tf32": 400e12, "f16": 750e12, "bf16": 780e12, "fp64": 60e12},
    "measured", 0.0, {"fp32": 65.8e12, "tf32": 410e12, "f16": 875e12, "bf16": 869e12, "fp64": 62e12},
)  # fmt: skip
MB = 1 << 20


def traced(source):
    return tracing.trace(source, "here"), worker.trace_signature(source, "here")


def forward(body, inputs, sizes="n = 1024", **more):
    return _file(
        f"def forward(self, {', '.join(inputs)}):\n    return {body}", sizes, ", ".join(inputs.values()), **more
    )


def least(source, facts=None, l2=0):
    graph, signature = traced(source)
    return compulsory_work(graph, signature, l2, facts or {})


def test_a_gathers_least_bytes_are_those_of_its_own_indices(shared, tmp_path):
    """Every source of the benchmark is used, so that the whole table must be read: exactly, not at least one row."""
    problem = library.load("gather_mean")
    reference = shared.reference(problem, tmp_path)
    workload = next(w for w in problem.workloads if w.name == "layer 2")
    facts = reference.facts_of(workload)
    assert (facts["idx"].distinct, facts["indptr"].first, facts["indptr"].last) == (111_000, 0, 132_000)
    assert facts["table"] == reference.input_facts()["table"]
    found = compulsory_work(reference.graph(workload), reference.signature(workload), L2, facts)
    assert found.moved_bytes == 4 * 256 * 111_000 + 8 * 132_000 + 8 * 13_501


# name: (bytes of the graph, FLOPs of the graph in its own kind, compulsory bytes without the L2, compulsory FLOPs)
CATALOGUE = {
    "relu": (512 * MB, {"plain float32": 1 << 26}, 512 * MB, {}),
    "tanh": (512 * MB, {"plain float32": 16 << 26}, 512 * MB, {}),
    "leaky_relu": (512 * MB, {"plain float32": 1 << 26}, 512 * MB, {}),
    "gelu": (512 * MB, {"plain float32": 16 << 26}, 512 * MB, {}),
    "sigmoid": (512 * MB, {"plain float32": 8 << 26}, 512 * MB, {}),
    "swish": (512 * MB, {"plain float32": 9 << 26}, 512 * MB, {}),
    "softsign": (512 * MB, {"plain float32": 6 << 26}, 512 * MB, {}),
    "softmax": (512 * MB, {"plain float32": 12 << 26}, 512 * MB, {}),
    "logsoftmax": (512 * MB, {"plain float32": 12 << 26}, 512 * MB, {}),
    "silu_and_mul": (192 * MB, {"plain float32": 9 << 25}, 192 * MB, {}),
    "sum_reduction": ((1024 * MB) + 32 * 2048 * 4, {"plain float32": 1 << 28}, (1024 * MB) + 32 * 2048 * 4, {}),
    "mean_reduction": (256 * MB + 4096 * 4, {"plain float32": 1 << 26}, 256 * MB + 4096 * 4, {}),
    "max_reduction": (256 * MB + 4096 * 4, {"plain float32": 1 << 26}, 256 * MB + 4096 * 4, {}),
    "layernorm": (256 * MB + 2 * 4096 * 4, {"plain float32": 8 << 25}, 256 * MB + 2 * 4096 * 4, {}),
    "rmsnorm": (256 * MB + 4096 * 4, {"plain float32": 0}, 256 * MB + 4096 * 4, {}),
    "add_rmsnorm": (384 * MB + 4096 * 4, {"plain float32": 0}, 384 * MB + 4096 * 4, {}),
    "matvec": (1024 * MB + 131072 * 4 + 2048 * 4, {"float32": 1 << 29}, 1024 * MB + 131072 * 4 + 2048 * 4, 7 << 26),
    "matmul_square": (192 * MB, {"float32": 1 << 37}, 192 * MB, 7 << 34),
    "matmul_transposed_a": (224 * MB, {"float32": 1 << 37}, 224 * MB, 7 << 34),
    "matmul_transposed_b": (224 * MB, {"float32": 1 << 37}, 224 * MB, 7 << 34),
    "matmul_both_transposed": (224 * MB, {"float32": 1 << 37}, 224 * MB, 7 << 34),
    "matmul_bias_relu": (
        320 * MB + 8192 * 4, {"float32": 1 << 37, "plain float32": 2 << 23}, 320 * MB + 8192 * 4, 7 << 34
    ),
    "batched_matmul": (1792 * MB, {"float32": 1 << 38}, 1792 * MB, 7 << 35),
}  # fmt: skip


@pytest.mark.by_default(12)
@pytest.mark.parametrize("problem", library.catalogue(), ids=lambda p: p.name)
def test_the_catalogue_costs_what_it_must(problem):
    graph, signature = traced(problem.source)
    if problem.name in CATALOGUE:
        moved, flops, compulsory, product = CATALOGUE[problem.name]
        work = graph_work(graph, signature)
        assert work.moved_bytes == moved
        if any(flops.values()):
            assert work.flops == flops
        need = compulsory_work(graph, signature, 0, {})
        assert need.moved_bytes == compulsory
        assert need.flops == ({"float32": product} if product else {})
        assert unfused_bytes(graph) >= moved - (8192 + 131072) * 4
    shown, forbidden = bounds.compute_bounds(problem.source, graph, signature, H200, L2)
    assert shown.us >= forbidden.us > 0


def test_outputs_may_stay_in_the_l2_and_inputs_may_not():
    problem = next(p for p in library.catalogue() if p.name == "relu")
    assert least(problem.source, l2=L2).moved_bytes == 512 * MB - L2
    small = forward("torch.relu(x)", {"x": "torch.rand(n, n)"})
    assert least(small, l2=L2).moved_bytes == 4 * MB


def test_a_row_norm_says_what_its_pieces_cost():
    problem = next(p for p in library.catalogue() if p.name == "rmsnorm")
    work = graph_work(*traced(problem.source))
    # square, mean, times the root, times the weight an element; + eps and the root (4) a row
    elements, rows = 8192 * 4096, 8192
    assert work.flops == {"plain float32": elements * (1 + 1 + 1 + 1) + rows * (1 + 4)}


# -- structure an honest kernel may use --------------------------------------------------------------------------------

N, N_SMALL = 1024, 32
TWO = {"a": "torch.rand(n, n)", "b": "torch.rand(n, n)"}
HALF = N * (N + 1) // 2
PRODUCT = 2 * N**3


def test_a_diagonal_times_a_matrix_is_a_scaling():
    work = least(forward("torch.diag(a) @ b", {"a": "torch.rand(n)", "b": "torch.rand(n, n)"}))
    assert work.moved_bytes == 4 * (N + 2 * N * N)
    assert work.flops["float32"] <= 2 * N * N


def test_triangular_products_count_the_part_that_is_not_zero():
    both = least(forward("torch.tril(torch.tril(a) @ torch.tril(b))", TWO))
    assert both.moved_bytes == 4 * (2 * HALF + N * N)
    assert both.flops["float32"] <= 7 / 8 * PRODUCT / 6 * 1.01
    one = least(forward("torch.triu(a) @ b", TWO))
    assert one.moved_bytes == 4 * (HALF + 2 * N * N)
    assert one.flops["float32"] <= 7 / 8 * PRODUCT / 2 * 1.01
    result = least(forward("torch.triu(a @ b)", TWO))
    assert result.moved_bytes == 4 * 3 * N * N
    assert result.flops["float32"] <= 7 / 8 * PRODUCT / 2 * 1.01


def test_triangles_in_the_values_count_like_triangles_in_the_graph():
    source = _file(
        "def forward(self, a, b):\n    return torch.triu(a @ b)",
        "n = 48",
        "torch.triu(torch.rand(n, n)), torch.triu(torch.rand(n, n))",
    )
    facts = reading.input_facts(source, "here")
    assert {name: fact.nonzero for name, fact in facts.items()} == {"a": "upper", "b": "upper"}
    work = least(source, facts)
    half = 48 * 49 // 2
    assert work.moved_bytes == 4 * (2 * half + 48 * 48)
    assert work.flops["float32"] <= 7 / 8 * 2 * 48**3 / 6 * 1.05


def test_a_mask_spares_what_it_hides():
    source = _file(
        "def __init__(self, n):\n    super().__init__()\n    self.mask = torch.tril(torch.ones(n, n))\n\n"
        "def forward(self, x):\n    return x * self.mask",
        "n = 64\nbatch = 3", "torch.rand(batch, n, n)", "n",
    )  # fmt: skip
    facts = reading.input_facts(source, "here")
    assert facts["mask"].nonzero == "lower"
    assert not facts["mask"].matters  # the same under every seed
    assert least(source, facts).moved_bytes == 4 * (3 * 64 * 65 // 2 + 3 * 64 * 64)


def test_a_symmetric_input_is_half_an_input():
    source = _file(
        "def forward(self, a, b):\n    return a @ b",
        "n = 32",
        "(lambda r: r + r.T)(torch.rand(n, n)), torch.rand(n, n)",
    )
    facts = reading.input_facts(source, "here")
    assert (facts["a"].symmetric, facts["b"].symmetric) == (True, False)
    assert least(source, facts).moved_bytes == 4 * (32 * 33 // 2 + 2 * 32 * 32)


def test_an_input_that_changes_nothing_costs_nothing():
    source = forward("torch.softmax(a.sum(1, keepdim=True), 1) + b[:, :1]", TWO, sizes="n = 16")
    facts = reading.input_facts(source, "here")
    assert (facts["a"].matters, facts["b"].matters) == (False, True)
    assert least(source, facts).moved_bytes == 4 * (16 + 16)
    assert least(source, {"a": InputFacts(matters=False), "b": InputFacts(matters=False)}).flops == {}


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        ("a[:8]", 8 * N), ("a[:, ::2]", N * N // 2), ("a[3]", N), ("a.T[:5]", 5 * N),
        ("torch.cat([a[:2], b[:3]])", 5 * N), ("a.chunk(4)[1]", N * N // 4), ("a[:4] + a[2:6]", 6 * N),
        ("a.sum(1)[:7]", 7 * N), ("(a @ b)[:3]", 3 * N + N * N), ("a + b[0]", N * N + N), ("a.flatten()[:9]", 9),
        ("a.unsqueeze(0).expand(5, n, n)[:, :2]", 2 * N),
        ("F.max_pool2d(a.view(1, 1, n, n), 1, stride=4)", N * N // 16),
        ("torch.sort(a, stable=True)[0][:3, :2]", 3 * N), ("torch.msort(a)[:3, :2]", 2 * N),
        ("torch.softmax(a, 1)[:, :4]", N * N), ("torch.softmax(a, dim=0)[:, :4]", 4 * N),
    ],
)  # fmt: skip
def test_only_what_can_be_reached_is_read(body, elements):
    source = forward(body, TWO)
    graph, signature = traced(source)
    outputs = sum(t.nbytes for t in signature.outputs)
    assert compulsory_work(graph, signature, 0, {}).moved_bytes == 4 * elements + outputs


def test_a_gathered_table_counts_its_rows_for_display_and_one_row_for_suspicion():
    graph, signature = traced(GOOD["embedding"])
    indices, row, rows = 64 * 2048 * 8, 8192 * 4, 64 * 2048
    assert graph_work(graph, signature).moved_bytes == indices + 2 * rows * row
    assert compulsory_work(graph, signature, 0, {}).moved_bytes == indices + row + rows * row


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("(a @ b).sum()", 0),  # two row sums and a dot product
        ("(a @ b).mean(1)", 0),
        ("a @ b + a @ b.T", PRODUCT),  # a @ (b + b.T)
        ("torch.relu(a @ b).sum()", PRODUCT),
        ("(a @ b) @ b", PRODUCT),
        ("a @ a.T", PRODUCT / 2),
        ("torch.ones(n, n) @ a", 0),
        ("F.one_hot(a.argmax(1), n).float() @ b", 0),
        ("torch.einsum('ij,jk->ik', a, b)", PRODUCT),
        ("torch.addmm(b, a, b)", PRODUCT),
        ("F.scaled_dot_product_attention(a[None], b[None], b[None], is_causal=True)", 2 * N * (N + 1) * N),
    ],
)
def test_flops_that_algebra_avoids_are_not_demanded(body, most):
    flops = sum(least(forward(body, TWO)).flops.values())
    assert flops <= 7 / 8 * most
    assert flops >= 7 / 8 * most * 0.99


def test_convolutions_count_one_multiplication_per_channel():
    # 3 x 5 window, 64 channels, stride 2: outputs 256 x 255
    work = graph_work(*traced(GOOD["conv2d"]))
    outputs = 16 * 128 * 256 * 255
    assert work.flops["float32"] == 2 * outputs * 64 * 15
    assert least(GOOD["conv2d"]).flops["float32"] == int(7 / 8 * 2 * outputs * 64)


@pytest.mark.parametrize(("layer", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_multiply_each_weight_once_a_step(layer, gates):
    # 6 layers of 256, the first reads 128: 512 steps of 10 sequences
    source = GOOD["lstm"].replace("nn.LSTM", f"nn.{layer}")
    graph, signature = traced(source)
    products, last_bias = 2 * 10 * 512 * gates * 256 * (128 + 5 * 256 + 6 * 256), 10 * 10
    assert graph_work(graph, signature).flops["plain float32"] == products + last_bias
    assert sum(node.op.startswith("aten.") for node in graph.nodes) < 7  # the layer is one of them


def test_every_traceable_reference_has_bounds():
    for name in ("attention_heads", "conv_transpose3d_norm", "pooling", "lstm", "gemm_batch_norm_buffers"):
        graph, signature = traced(GOOD[name])
        shown, forbidden = bounds.compute_bounds(GOOD[name], graph, signature, H200, L2)
        assert shown.us > 0
        assert shown.us >= forbidden.us
    graph = tracing.trace(GOOD["values_decide_the_path"], "here")
    assert bounds.compute_bounds(GOOD["values_decide_the_path"], graph, signature, H200, L2) == ()


def facts_of(body, inputs, sizes="n = 32"):
    source = forward(body, inputs, sizes)
    return source, reading.input_facts(source, "here")


@pytest.mark.parametrize(
    ("body", "second", "elements"),
    [
        # rows that a padding mask hides need not be read
        ("a * m", "(torch.rand(n, 1) > 0.5).float()", N_SMALL),
        ("a * m", "torch.rand(n, n) > 0.5", N_SMALL**2 / 4),
        ("a.masked_fill(m, 0.0)", "torch.rand(n, n) > 0.5", N_SMALL**2 / 4),
        ("torch.where(m, a, a.T)", "torch.rand(n, n) > 0.5", N_SMALL**2 / 4 + N_SMALL**2 / 2),
        ("torch.where(m > 0, m, 0.1 * m) + a", "torch.randn(n, n)", 2 * N_SMALL**2),
        ("m @ a", "torch.eye(n)[torch.randperm(n)]", N_SMALL**2),
        ("a - m", "torch.rand(n, n)", 2 * N_SMALL**2),
    ],
)
def test_what_zeros_and_conditions_may_spare_is_not_demanded(body, second, elements):
    source, facts = facts_of(body, {"a": "torch.rand(n, n)", "m": second})
    work = least(source, facts)
    assert work.moved_bytes == 4 * (elements + N_SMALL**2)
    assert work.flops == {}


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        ("z = a.clone()\n    z[:, : n // 2] = 0\n    return z", 512),
        ("z = a.clone()\n    z[0].copy_(b[0])\n    z[1, 2:] = 1\n    return z", 1024 - 32 - 30),
        ("a[:, : n // 4] = 1\n    return a * 2", 768),
        ("return torch.slice_scatter(a, b[:8], 0, 0, 8)", 1024),
        ("return torch.select_scatter(a, b[0], 1, 3)", 1024),
        ("return torch.addmm(b, a, a, beta=0)", 1024),
    ],
)
def test_what_something_else_takes_the_place_of_is_not_read(body, elements):
    source = _file(f"def forward(self, a, b):\n    {body}", "n = 32", "*torch.rand(2, n, n)")
    assert least(source).moved_bytes == 4 * (elements + 1024)


def test_the_same_tensor_twice_is_read_once():
    source = _file("def forward(self, a, b):\n    return a + b", "n = 32", "*[torch.rand(n, n)] * 2")
    facts = reading.input_facts(source, "here")
    assert (facts["a"].matters, facts["b"].matters) == (True, False)


def test_weights_that_meet_only_padding_are_not_read():
    source = forward("F.conv2d(x, w, padding=1)", {"x": "torch.rand(8, 4, 1, 1)", "w": "torch.rand(16, 4, 3, 3)"})
    assert least(source).moved_bytes == 4 * (8 * 4 + 16 * 4 + 8 * 16)


def test_an_index_may_hit_one_place_again_and_again():
    wide = {"a": "torch.rand(4, n)", "i": "torch.randint(0, n, (64,))"}
    assert least(forward("a[:, i]", wide)).moved_bytes == 64 * 8 + 4 + 4 * 4 * 64
    assert least(forward("torch.index_select(a, 1, i)", wide)).moved_bytes == 64 * 8 + 4 * 4 + 4 * 4 * 64
    loss = {"a": "torch.rand(64, n)", "i": "torch.randint(0, n, (64,))"}
    assert least(forward("F.nll_loss(a, i)", loss)).moved_bytes <= 64 * 8 + 64 * 4 + 4
    assert least(forward("F.cross_entropy(a, i)", loss)).moved_bytes == 64 * 8 + 64 * N * 4 + 4


# -- pipes, statements, suspicion --------------------------------------------------------------------------------------


def bound_of(source, kind, allow=()):
    return next(b for b in bounds.compute_bounds(source, *traced(source), H200, L2, allow) if b.kind == kind)


def test_precision_chooses_the_pipe():
    source = forward("a @ b", TWO)
    assert bound_of(source, "graph").pipe == "fp32"
    assert bound_of(source, "graph", ("tf32",)).pipe == "tf32"
    assert bound_of(source.replace("n)", "n, dtype=torch.bfloat16)"), "graph").pipe == "bf16"
    assert bound_of(source.replace("n)", "n, dtype=torch.float64)"), "graph").pipe == "fp64"
    flops = 7 / 8 * PRODUCT
    # fp32's precision from three float16 products; with TF32 allowed, one
    assert bound_of(source, "compulsory").compute_us == pytest.approx(1e6 * flops / (875e12 / 3))
    assert bound_of(source, "compulsory", ("tf32",)).compute_us == pytest.approx(1e6 * flops / 875e12)


def test_a_pipe_that_was_not_measured_bounds_nothing():
    source = forward("a @ b", TWO)
    peaks = Peaks("x", 1e12, 1e12, {}, "", 0.0)
    assert [b.compute_us for b in bounds.compute_bounds(source, *traced(source), peaks, L2)] == [0.0, 0.0]


def test_a_file_may_state_what_is_compulsory():
    source = forward("a @ b", TWO) + '\nCOMPULSORY = {"bytes": "4 * n * (n + 1)", "flops": 123}\n'
    bound = bound_of(source, "compulsory")
    assert (bound.moved_bytes, bound.flops, bound.pipe) == (4 * N * (N + 1), 123, "3 x f16")
    only = stated('n = 3\nCOMPULSORY = {"flops": "n ** 2"}\n')
    assert (only.moved_bytes, dict(only.flops)) == (-1, {"stated": 9})
    assert stated("n = 3\n") is None


@pytest.mark.parametrize(
    "literal", ['{"byte": 3}', "{}", "7", '{"bytes": "m + 1"}', '{"bytes": [1]}', '{"flops": "n +"}']
)
def test_a_wrong_statement_names_its_line(literal):
    with pytest.raises(ProblemError, match=r"line 2.*COMPULSORY"):
        stated(f"n = 3\nCOMPULSORY = {literal}\n")


@pytest.mark.parametrize("literal", ['{"byte": 3}', "{}", "7", '{"bytes": [1]}', '{"flops": True}'])
def test_a_wrong_form_is_found_when_the_file_is_read(tmp_path, literal):
    file = tmp_path / "it.py"
    file.write_text(GOOD["elementwise"] + f"\nCOMPULSORY = {literal}\n")
    with pytest.raises(ProblemError, match=r"it\.py:\d+: COMPULSORY"):
        library.read_problem(file)
    file.write_text(GOOD["elementwise"] + '\nCOMPULSORY = {"bytes": "8 * batch_size * dim"}\n')
    assert library.read_problem(file).title


def performance(us, source, **baselines):
    def timing(name, median):
        return Timing(name, median, median, median, 0.01, 50)

    timings = tuple(timing(n, t) for n, t in {"candidate": us, **baselines}.items())
    conditions = Conditions("H200", "580", (1980, 1980), 3201, (40, 45), (300, 600), (), 0, 8, 2 * L2, 0.0)
    bound = bounds.compute_bounds(source, *traced(source), H200, L2)
    return WorkloadPerformance("benchmark", timings, (), (), 0.01, conditions, bound)


def test_faster_than_the_compulsory_bound_is_suspect_and_a_little_faster_is_not():
    source = next(p for p in library.catalogue() if p.name == "relu").source
    needed = (512 * MB - L2) / 4.61e12 * 1e6
    assert bounds.reason_to_suspect(performance(needed * 0.96, source)) == ""
    reason = bounds.reason_to_suspect(performance(needed * 0.9, source))
    assert "474.0 MB must be moved" in reason
    assert "COMPULSORY" in reason


def test_a_scaling_written_as_a_product_may_be_a_hundred_times_as_fast_as_the_product():
    honest_us = (4096 * 4 + 2 * 4096 * 4096 * 4) / 4.2e12 * 1e6
    assert bounds.reason_to_suspect(performance(honest_us, GOOD["diagonal"])) == ""


def test_far_beyond_the_strongest_baseline_a_person_must_look():
    source = forward("torch.relu(x)", {"x": "torch.rand(n, n)"})
    assert bounds.reason_to_confirm(performance(10.0, source, eager=90.0, best=200.0, existing=49.0)) == ""
    reason = bounds.reason_to_confirm(performance(10.0, source, **{"eager": 90.0, "torch.compile": 51.0}))
    assert "5.1 times" in reason
    assert "torch.compile" in reason
    assert bounds.reason_to_confirm(performance(10.0, source, best=900.0)) == ""
    assert bounds.reason_to_confirm(performance(10.0, source, existing=900.0)) == ""
    both = bounds.reason_to_confirm(performance(10.0, source, eager=90.0, existing=60.0))
    assert "6.0 times as fast as the fastest baseline (existing kernel, 60.00 us)" in both


def test_the_reference_answers_for_its_own_inputs(shared):
    problem = next(p for p in library.catalogue() if p.name == "matmul_bias_relu")
    facts = shared.reference(problem).input_facts()
    assert set(facts) == {"x", "linear_weight", "linear_bias"}
    assert all(f.matters and not f.nonzero and not f.symmetric for f in facts.values())


# -- regions -----------------------------------------------------------------------------------------------------------


def brute(region):
    """Return the elements of a region of a small matrix, one by one."""
    rows, columns = region.shape
    if region.triangle:
        lower, k = region.triangle.lower, region.triangle.offset
        return {(r, c) for r in range(rows) for c in range(columns) if (c - r <= k if lower else c - r >= k)}
    return {(r, c) for box in region.boxes for r in range(*box[0]) for c in range(*box[1])}


def test_regions_count_their_elements():
    shape = (5, 7)
    regions = [ElementSet(shape, triangle=Triangle(lower, k)) for lower in (True, False) for k in range(-6, 8)]
    regions += [ElementSet(shape, (((0, 2), (1, 4)), ((1, 5), (3, 7)))), ElementSet.all(shape), ElementSet.none(shape)]
    for one in regions:
        assert one.count == len(brute(one))
        for other in regions:
            joined = brute(one) | brute(other)
            assert (one | other).count <= len(joined)
            assert (one | other).count >= max(one.count, other.count)
        for triangle in (Triangle(True, 1), Triangle(False, -2)):
            inside = brute(one) & brute(ElementSet(shape, triangle=triangle))
            assert one.within(triangle).count <= len(inside)
        assert brute(one.permuted((1, 0), (7, 5))) == {(c, r) for r, c in brute(one)}
