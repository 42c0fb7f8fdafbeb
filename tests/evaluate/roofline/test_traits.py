"""Where modules disagreed on an operation, or knew nothing of it: bytes and FLOPs worked out by hand, in float32."""

import pytest

from cutegen_core.evaluate.roofline.library_calls import library_call
from cutegen_core.evaluate.roofline.work import graph_work, unfused_bytes
from cutegen_core.records.graph import InputFacts
from tests.evaluate.roofline.test_bounds import HALF, PRODUCT, TWO, N, forward, least, traced

FLOAT, LONG = 4, 8
IMAGE = {"x": "torch.rand(4, 8, 32, 32)"}
PIXELS = 4 * 8 * 32 * 32
PICKED = {"a": "torch.rand(n, n)", "i": "torch.randint(0, n, (16,))", "v": "torch.rand(16, n)"}
COUNTED = {"a": "torch.rand(n, n)", "i": "torch.randint(0, n, (16, n))", "v": "torch.rand(16, n)"}


def display(source):
    return graph_work(*traced(source))


# name: (forward, inputs, bytes that are read whatever the kernel does, bytes of the result)
READ = {
    # a diagonal is as many elements as results
    "diagonal": ("a.diagonal()", TWO, FLOAT * N, FLOAT * N),
    "diag of a matrix": ("torch.diag(a)", TWO, FLOAT * N, FLOAT * N),
    "trace": ("torch.trace(a)", TWO, FLOAT * N, FLOAT),
    "diag of a vector": ("torch.diag(a)", {"a": "torch.rand(n)"}, FLOAT * N, FLOAT * N * N),
    # only the shape or dtype of the second operand counts
    "type_as": ("a.type_as(b.half())", TWO, FLOAT * N * N, 2 * N * N),
    "expand_as": ("a[0].expand_as(b)", TWO, FLOAT * N, FLOAT * N * N),
    "zeros_like": ("torch.zeros_like(a) + b", TWO, FLOAT * N * N, FLOAT * N * N),
    "copy_": ("torch.empty_like(a).copy_(b)", TWO, FLOAT * N * N, FLOAT * N * N),
    # other spellings
    "multiply": ("torch.multiply(a, b)", TWO, 2 * FLOAT * N * N, FLOAT * N * N),
    "&": ("(a & 3) >> 1", {"a": "torch.randint(0, 9, (n,))"}, LONG * N, LONG * N),
    # several views of several operands
    "mse_loss": ("F.mse_loss(a, b)", TWO, 2 * FLOAT * N * N, FLOAT),
    "broadcast_tensors": ("torch.broadcast_tensors(a, b[0])[1]", TWO, FLOAT * N, FLOAT * N * N),
    "tensor_split": ("a.tensor_split(3)[1] + a[342:683]", TWO, FLOAT * 341 * N, FLOAT * 341 * N),
    "tensor_split at": ("a.tensor_split((5, 9))[1] + a[5:9]", TWO, FLOAT * 4 * N, FLOAT * 4 * N),
    "movedim": ("a.movedim(0, 1)[:5] + a[:, :5].t()", TWO, FLOAT * 5 * N, FLOAT * 5 * N),
    "windows that skip": ("a.unfold(1, 2, 4)", TWO, FLOAT * N * 256 * 2, FLOAT * N * 256 * 2),
    # elements at other places
    "max of two": ("torch.max(a, b)[:3]", TWO, 2 * FLOAT * 3 * N, FLOAT * 3 * N),
    "prelu": ("F.prelu(x, w)[:, :1]", IMAGE | {"w": "torch.rand(8)"}, FLOAT * PIXELS // 8, FLOAT * PIXELS // 8),
    "pad": ("F.pad(a, (1, 1))", TWO, FLOAT * N * N, FLOAT * N * (N + 2)),
    "pad that cuts": ("F.pad(a, (-1, 1))", TWO, 0, FLOAT * N * N),
    "repeat": ("a.repeat(2, 1)", TWO, FLOAT * N * N, 2 * FLOAT * N * N),
    "flip": ("a.flip(0)", TWO, FLOAT * N * N, FLOAT * N * N),
    "outer": ("torch.outer(a[0], b[0])", TWO, 2 * FLOAT * N, FLOAT * N * N),
    "max_pool2d with indices": (
        "F.max_pool2d(x, 2, return_indices=True)[0]", IMAGE, FLOAT * PIXELS, FLOAT * PIXELS // 4,
    ),
    "adaptive_max_pool2d": ("F.adaptive_max_pool2d(x, 2)", IMAGE, FLOAT * PIXELS, FLOAT * 4 * 8 * 4),
    "cosine_similarity": ("F.cosine_similarity(a, b)[:3]", TWO, FLOAT * 3 * N, FLOAT * 3),
    # a row of zeros and a one chooses: the indices must be read, the matrix need not
    "one_hot": ("F.one_hot(i, n).float() @ a", PICKED, LONG * 16, FLOAT * 16 * N),
    # added up: every source and every place; where both exist, the operand
    "index_add": ("torch.index_add(a, 0, i, v)", PICKED, FLOAT * (N * N + 16 * N) + LONG * 16, FLOAT * N * N),
    "index_add_ to zeros": ("torch.zeros(n, n).index_add_(0, i, v)", PICKED, FLOAT * 16 * N + LONG * 16, FLOAT * N * N),
    "scatter_add": ("torch.scatter_add(a, 0, i, v)", COUNTED, FLOAT * (N + 16) * N + LONG * 16 * N, FLOAT * N * N),
    "scatter_reduce": (
        "torch.scatter_reduce(a, 0, i, v, 'amax', include_self=False)", COUNTED,
        FLOAT * (N - 16) * N + FLOAT * 16 * N + LONG * 16 * N, FLOAT * N * N,
    ),
    "index_put that adds": (
        "a.index_put((i,), v, accumulate=True)", PICKED, FLOAT * (N + 16) * N + LONG * 16, FLOAT * N * N,
    ),
    # written over: of the sources perhaps one survives, and what it is written to is not read
    "scatter": ("torch.scatter(a, 0, i, v)", COUNTED, FLOAT * (N - 16) * N + LONG * 16 * N, FLOAT * N * N),
    "index_put": ("a.index_put((i,), v)", PICKED, LONG * 16, FLOAT * N * N),
    # bags may all hold the same row; segments by lengths cover their data, by offsets they need not
    "embedding_bag": (
        "F.embedding_bag(i, a, o)", PICKED | {"o": "torch.tensor([0, 4, 9])"},
        FLOAT * N + LONG * (16 + 3), FLOAT * 3 * N,
    ),
    "segment_reduce by lengths": (
        "torch.segment_reduce(a, 'sum', lengths=l)", {"a": "torch.rand(n, n)", "l": "torch.tensor([n - 24, 24])"},
        FLOAT * N * N + LONG * 2, FLOAT * 2 * N,
    ),
    "segment_reduce by offsets": (
        "torch.segment_reduce(a, 'sum', offsets=l)", {"a": "torch.rand(n, n)", "l": "torch.tensor([0, 24, n])"},
        LONG * 3, FLOAT * 2 * N,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_must_be_read(name):
    body, inputs, read, written = READ[name]
    assert least(forward(body, inputs)).moved_bytes == read + written


KNOWN = {"i": InputFacts(distinct=11), "o": InputFacts(distinct=3, first=0, last=16)}
ROWS = {"a": "torch.rand(n, n)", "i": "torch.randint(0, n, (16,))", "o": "torch.tensor([0, 4, 16])"}
BAGS = "F.embedding_bag(i, a, o, include_last_offset=True)"
SEGMENTS = {"a": "torch.rand(16, n)", "o": "torch.tensor([0, 4, 16])"}
SHARES = (
    "torch.zeros(n, n).index_add(0, i, a.index_select(0, torch.repeat_interleave(torch.arange(2), "
    "o[1:] - o[:-1], output_size=16)))"
)


# name: (forward, inputs, facts, elements of float32 and of int64 that are read)
WITH_FACTS = {
    "rows that must differ": ("a.index_select(0, i)", PICKED, KNOWN, 11 * N, 16),
    "by embedding": ("F.embedding(i, a)", PICKED, KNOWN, 11 * N, 16),
    "an index may count from the end": ("a[i]", PICKED, KNOWN, 1, 16),
    "a part of the result needs less": ("a.index_select(0, i)[:2]", PICKED, KNOWN, N, 1),
    "bags that cover their indices": (BAGS, ROWS, KNOWN, 11 * N, 16 + 3),
    "bags that may stop before": (BAGS, ROWS, {**KNOWN, "o": InputFacts(first=0, last=12)}, 0, 3),
    "bags that skip a row": (BAGS[:-1] + ", padding_idx=0)", ROWS, KNOWN, N, 16 + 3),
    "bags without facts": (BAGS, ROWS, {}, 0, 3),
    "segments that cover their data": ("torch.segment_reduce(a, 'sum', offsets=o)", SEGMENTS, KNOWN, 16 * N, 3),
    "segments that begin later": (
        "torch.segment_reduce(a, 'sum', offsets=o)", SEGMENTS, {"o": InputFacts(first=1, last=16)}, 0, 3,
    ),
    "rows of a pointer that are not empty": (SHARES, {**ROWS, "a": "torch.rand(2, n)"}, KNOWN, 2 * N, 16 + 3),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_FACTS)
def test_what_is_known_of_indices_tells_what_must_be_read(name):
    body, inputs, facts, floats, longs = WITH_FACTS[name]
    source = forward(body, inputs)
    written = traced(source)[1].outputs[0].nbytes
    assert least(source, facts).moved_bytes == FLOAT * floats + LONG * longs + written


def test_for_display_a_bag_reads_a_row_for_each_index():
    source = forward("F.embedding_bag(i, a, o)", PICKED | {"o": "torch.tensor([0, 4, 9])"})
    work = display(source)
    assert work.moved_bytes == FLOAT * 16 * N + LONG * (16 + 3) + FLOAT * 3 * N
    assert work.flops == {"plain float32": 16 * N}


def test_for_display_what_only_gives_its_shape_is_not_read():
    assert display(forward("torch.zeros_like(a) + b", TWO)).moved_bytes == 2 * FLOAT * N * N


# name: (forward, inputs, FLOPs of everything but products, FLOPs of products)
COUNTED_FLOPS = {
    "dropout that is off": ("F.dropout(torch.relu(a), 0.5, False)", TWO, N * N, 0),
    "norm with given statistics": (
        "F.batch_norm(x, m, s)", IMAGE | {"m": "torch.rand(8)", "s": "torch.rand(8)"}, 4 * PIXELS, 0,
    ),
    "norm of the batch": (
        "F.batch_norm(x, m, s, training=True)", IMAGE | {"m": "torch.rand(8)", "s": "torch.rand(8)"}, 8 * PIXELS, 0,
    ),
    "a loss": ("F.mse_loss(a, b)", TWO, 2 * N * N, 0),
    "a loss that is not reduced": ("F.mse_loss(a, b, reduction='none')", TWO, 2 * N * N, 0),
    "multiply": ("torch.multiply(a, b)", TWO, N * N, 0),
    "outer": ("torch.outer(a[0], b[0])", TWO, N * N, 0),
    "index_add": ("torch.index_add(a, 0, i, v)", PICKED, 16 * N, 0),
    "segment_reduce": (
        "torch.segment_reduce(a, 'sum', lengths=l)", {"a": "torch.rand(n, n)", "l": "torch.tensor([n - 24, 24])"},
        N * N, 0,
    ),
    "inner": ("torch.inner(a, b)", TWO, 0, PRODUCT),
    "a power of a matrix": ("torch.linalg.matrix_power(a, 5)", TWO, 0, 3 * PRODUCT),
    "the first power of a matrix": ("a.matrix_power(1)", TWO, 0, 0),
    "vdot": ("torch.vdot(a[0], b[0])", TWO, 0, 2 * N),
    "tensordot": ("torch.tensordot(a, b, 2)", TWO, 0, 2 * N * N),
    "addbmm": (
        "torch.addbmm(a, c, c)", {"a": "torch.rand(n, n)", "c": "torch.rand(2, n, n)"}, N * N, 2 * PRODUCT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED_FLOPS)
def test_flops_as_traced(name):
    body, inputs, plain, products = COUNTED_FLOPS[name]
    flops = display(forward(body, inputs)).flops
    assert flops == {k: n for k, n in (("plain float32", plain), ("float32", products)) if n}


@pytest.mark.parametrize(
    ("body", "most"),
    [
        # sums of a product, whichever way they are reached
        ("(a @ b).flip(0).sum()", 0), ("(a @ b).repeat(2, 1).sum(0)", 0), ("F.pad(a @ b, (1, 1)).sum()", 0),
        ("F.adaptive_avg_pool1d((a @ b)[None], 1)", 0), ("torch.lerp(a @ b, a, 0.5).sum()", 0),
        ("torch.trace(a @ b)", 0),
        # n of n * n results
        ("(a @ b).diagonal()", PRODUCT / N),
        # zeros stay zeros in a triangle
        ("F.leaky_relu(torch.tril(a)) @ b", PRODUCT / 2), ("torch.expm1(torch.triu(a)) @ b", PRODUCT / 2),
        # a tensor with its own transpose
        ("a.unsqueeze(0) @ a.T.unsqueeze(0)", PRODUCT / 2),
    ],
)  # fmt: skip
def test_flops_that_no_algorithm_avoids(body, most):
    flops = sum(least(forward(body, TWO)).flops.values())
    assert 7 / 8 * most * 0.99 <= flops <= 7 / 8 * most * 1.01


def test_half_a_triangle_is_read_through_any_function_of_zero():
    assert least(forward("F.leaky_relu(torch.tril(a)) @ b", TWO)).moved_bytes == FLOAT * (HALF + 2 * N * N)


@pytest.mark.parametrize(
    ("body", "tensors"),
    [
        ("torch.relu(a.float())", 2),  # a cast to what it is already is no kernel
        ("torch.relu(F.dropout(a, 0.5, False))", 2),
        ("a.t().contiguous()", 2),  # a copy, since a view comes before it
        ("torch.ones(n, n) + a", 4),  # the ones are written first
        ("F.mse_loss(a, b, reduction='none')", 3),
    ],
)
def test_what_eager_moves(body, tensors):
    graph, _ = traced(forward(body, TWO))
    assert unfused_bytes(graph) == tensors * FLOAT * N * N


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("F.dropout(a @ b, 0.5, False)", "torch.matmul"), ("a[:8] @ b.chunk(2, 1)[0]", "torch.matmul"),
        ("torch.softmax(a.float(), 1)", "torch.softmax"), ("torch.ones(n, n) @ a", None),
        ("F.dropout(a @ b, 0.5)", None), ("a.half() @ b.half()", None),
    ],
)  # fmt: skip
def test_views_and_what_does_nothing_are_no_kernels_beside_a_library_call(body, call):
    graph, _ = traced(forward(body, TWO))
    assert library_call(graph) == call
