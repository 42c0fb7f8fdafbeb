"""The table of operations against PyTorch: every name exists, its traits are PyTorch's, and every trace is in it."""

import pytest

from cutegen_core.problems import library
from cutegen_core.propose.playbook.pointwise.operations import BINARY, UNARY
from cutegen_core.propose.playbook.rules import (
    RULES,
    SEVERAL,
    cells,
    einsum,
    losses,
    normalisation,
    pieces,
    products,
    ranks,
    reductions,
    scans,
    views,
)
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Ref
from cutegen_core.records.operations import OPERATIONS, SPELLINGS, VIEWS, Flow
from tests.later import Later
from tests.places import ROOT
from tests.problems.kernelbench_files import GOOD

torch = Later("torch")
tracing = Later("cutegen_core.judge.reference_process.tracing")

KERNELS = sorted((ROOT / "tests" / "data" / "kernels").glob("*.py"))
UNTRACEABLE = {"values_decide_the_path"}
NO_ATEN = {"input", "constant", "getitem", "_enter_autocast", "_exit_autocast"}
IN_PLACE_ONLY = {"copy", "fill", "zero"}


def overloads(name):
    packet = getattr(torch.ops.aten, name, None) or getattr(torch.ops.aten, f"{name}_")
    return [getattr(packet, overload) for overload in packet.overloads()]


def used(op, *args, shape=(4, 4), dtype="float32", **kwargs):
    return Node("y", op, args, kwargs, shape, dtype)


# -- what occurs is known ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sources",
    [
        {problem.name: problem.source for problem in library.catalogue()},
        {path.stem: path.read_text() for path in KERNELS},
        {name: source for name, source in GOOD.items() if name not in UNTRACEABLE},
    ],
    ids=["built-in", "kernels", "KernelBench"],
)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_every_operation_that_is_traced_is_in_the_table(sources, step):
    graphs = {name: tracing.trace(source, name) for name, source in list(sources.items())[::step]}
    assert all(graph.nodes for graph in graphs.values()), {n: g.reason for n, g in graphs.items() if not g.nodes}
    assert {name: ops.unknown(graph) for name, graph in graphs.items() if ops.unknown(graph)} == {}


def test_an_operation_that_is_not_in_the_table_is_unknown_by_name_and_nothing_else():
    node = used("aten.linalg_inv", Ref("x"))
    assert ops.traits(node).flow is Flow.UNKNOWN
    assert not ops.is_free(node, {})
    assert ops.unknown(Graph((node, used("aten.relu"), used("prims.iota")), ("y",))) == ("linalg_inv", "prims.iota")


# -- the table is PyTorch's --------------------------------------------------------------------------------------------


def test_every_name_is_an_operation_of_aten_and_stands_in_one_line():
    names = [name for _, line in ops._BY_TRAITS for name in line.split()]
    assert len(names) == len(set(names))
    missing = [n for n in (*names, *SPELLINGS) if not (hasattr(torch.ops.aten, n) or hasattr(torch.ops.aten, f"{n}_"))]
    assert set(missing) == NO_ATEN
    assert not set(SPELLINGS) & set(OPERATIONS)
    assert set(SPELLINGS.values()) <= set(OPERATIONS)


TAGGED = {
    "max", "min",  # pointwise of two tensors, which `traits` decides
    "clone",  # a copy
}  # fmt: skip


def test_what_pytorch_calls_pointwise_is_pointwise_here():
    tagged = {n for n in OPERATIONS if n not in NO_ATEN and any(torch.Tag.pointwise in f.tags for f in overloads(n))}
    assert {name for name in tagged if OPERATIONS[name].flow is not Flow.POINTWISE} == TAGGED | {"positive"}


def test_what_pytorch_calls_a_reduction_is_one_here():
    tagged = {n for n in OPERATIONS if n not in NO_ATEN and any(torch.Tag.reduction in f.tags for f in overloads(n))}
    assert {OPERATIONS[name].flow for name in tagged} == {Flow.REDUCTION}


def shows_operand(function):
    """Tell whether PyTorch's schema says that the result may be a view of an operand."""
    returned = function._schema.returns
    return bool(returned) and returned[0].alias_info is not None and not returned[0].alias_info.is_write


def test_views_are_pytorchs_views():
    """`contiguous` and `to` return their operand as it is where there is nothing to do; a trace then lacks the former,
    and `is_free` looks at the latter's dtypes."""
    shown = {n for n in OPERATIONS if n not in NO_ATEN and any(shows_operand(f) for f in overloads(n))}
    here = {name for name, traits in OPERATIONS.items() if traits.flow in VIEWS | {Flow.DIAGONAL, Flow.COPY}}
    assert shown - here == set()
    free = {name for name, traits in OPERATIONS.items() if traits.free} - NO_ATEN
    assert shown - free == {"contiguous", "to"}
    # composite functions, whose schemas do not tell, and copies that eager makes while it traces a constant
    assert free - shown == {
        "_unsafe_view", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "lift_fresh_copy", "meshgrid",
        "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
    }  # fmt: skip


def called(name, x):
    """Return the operation of one operand, with the arguments it usually has; None where it takes more."""
    more = {"clamp": (-1, 1), "clamp_min": (0,), "clamp_max": (0,), "hardtanh": (-1.0, 1.0), "threshold": (0.0, 0.0),
            "pow": (3,), "float_power": (3,), "fmod": (2,), "remainder": (2,), "floor_divide": (2,), "div": (2,),
            "mul": (2,), "atan2": (torch.ones_like(x),), "xlogy": (torch.ones_like(x),), "dropout": (0.5, False),
            "feature_dropout": (0.5, False), "alpha_dropout": (0.5, False), "feature_alpha_dropout": (0.5, False),
            "softmax": (-1,), "log_softmax": (-1,)}  # fmt: skip
    try:
        return getattr(torch.ops.aten, name)(x, *more.get(name, ()))
    except (RuntimeError, TypeError):
        return None


def of_one_operand():
    """Return the pointwise operations that can be called with one tensor, and their traits."""
    pointwise = {name: traits for name, traits in OPERATIONS.items() if traits.flow is Flow.POINTWISE}
    found = {n: traits for n, traits in pointwise.items() if isinstance(called(n, torch.ones(3)), torch.Tensor)}
    assert len(found) > 60
    return found


def test_zeros_stay_zeros_where_the_table_says_so():
    def stay(name):
        result = called(name, torch.zeros(3))
        return bool((result == 0).all()) and result.dtype is not torch.bool

    assert {name for name, traits in of_one_operand().items() if stay(name) is not traits.keeps_zeros} == set()


def test_linear_is_linear():
    a, b = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1.5, 0.25, -3.0])
    for name in (name for name, traits in of_one_operand().items() if traits.linear):
        together, apart = called(name, 2 * a - b), 2 * called(name, a) - called(name, b)
        assert torch.allclose(together, apart), name


def test_twice_is_once():
    x = torch.tensor([-2.5, -0.5, 0.0, 0.5, 2.5])
    for name in (name for name, traits in of_one_operand().items() if traits.idempotent):
        assert torch.allclose(called(name, called(name, x)), called(name, x)), name


@pytest.mark.parametrize(("name", "before"), [(n, t.undoes) for n, t in OPERATIONS.items() if t.undoes])
def test_what_undoes_another_does(name, before):
    x = torch.tensor([[0.5, 1.0], [2.0, 3.0]])
    torch.testing.assert_close(called(name, called(before, x)), x)


@pytest.mark.parametrize("name", [n for n, t in OPERATIONS.items() if t.lone and n != "sum_to_size"])
def test_of_one_element_that_element(name):
    x = torch.tensor([[0.5], [-2.0]])
    result = getattr(torch.ops.aten, name)(
        x, *(([-1],) if name in ("amax", "amin", "logsumexp", "sum", "mean") else (1,))
    )
    values = result[0] if isinstance(result, tuple) else result
    torch.testing.assert_close(values.reshape(-1), x.reshape(-1))


# -- how an operation is used ------------------------------------------------------------------------------------------


def test_spellings_and_writing_in_place_are_the_same_operation():
    for op, name in (("multiply", "mul"), ("add_", "add"), ("__and__", "bitwise_and"), ("__iand__", "bitwise_and"),
                     ("_softmax", "softmax"), ("special_expit", "sigmoid"), ("clip_", "clamp")):  # fmt: skip
        assert ops.name(used(f"aten.{op}")) == name
    assert ops.writes_operand(used("aten.relu_", Ref("x")))
    assert ops.writes_operand(used("aten.__iand__", Ref("x"), 3))
    assert not ops.writes_operand(used("aten._softmax", Ref("x")))
    assert not ops.writes_operand(used("aten.unsqueeze_", Ref("x"), 0)), "extents change, values do not"


def test_the_use_decides_where_one_name_has_two():
    def flow(op, *args, **more):
        return ops.traits(used(f"aten.{op}", Ref("x"), *args, **more)).flow

    assert (flow("max", 1), flow("max", Ref("y"))) == (Flow.REDUCTION, Flow.POINTWISE)
    assert (flow("dropout", 0.5, True), flow("dropout", 0.5, False)) == (Flow.POINTWISE, Flow.COPY)
    norm = (None, None, None, None)
    assert (flow("batch_norm", *norm, True), flow("batch_norm", *norm, False)) == (Flow.NORMALISATION, Flow.CHANNELWISE)
    assert (flow("mse_loss", Ref("y"), shape=()), flow("mse_loss", Ref("y"), 0)) == (Flow.LOSS, Flow.POINTWISE)
    added, written = (
        ops.traits(used("aten.index_put", Ref("x"), (Ref("i"),), Ref("v"), flag)) for flag in (True, False)
    )
    assert (added.some, written.some) == (False, True)


def test_a_cast_to_the_same_dtype_is_free():
    x = used("input", shape=(4,))
    nodes = {"x": x}
    assert ops.is_free(used("aten.to", Ref("x"), "float32"), nodes)
    assert not ops.is_free(used("aten.to", Ref("x"), "float32", copy=True), nodes)
    assert not ops.is_free(used("aten.to", Ref("x"), "float16", dtype="float16"), nodes)


def test_the_playbook_does_what_the_table_says():
    """Its rules are of operations that exist, and of the kind that the table has them in."""
    assert {*RULES, *SEVERAL, *UNARY, *BINARY} <= {*OPERATIONS, *SPELLINGS}
    assert {OPERATIONS[name].flow for name in (*UNARY, *BINARY)} == {Flow.POINTWISE}
    assert {OPERATIONS[SPELLINGS.get(n, n)].flow for n in normalisation.RULES} == {Flow.NORMALISATION, Flow.SOFTMAX}
    assert {OPERATIONS[name].flow for name in products.RULES} == {Flow.PRODUCT}
    assert {OPERATIONS[name].flow for name in einsum.RULES} == {Flow.CONTRACTION}
    others = {name for name in reductions.RULES if OPERATIONS[name].flow is not Flow.REDUCTION}
    assert others == {"cdist"}, "a product in torch"
    assert {OPERATIONS[name].flow for name in scans.RULES} == {Flow.SCAN}
    assert {OPERATIONS[name].flow for name in losses.RULES} == {Flow.LOSS, Flow.REDUCTION}
    assert {OPERATIONS[name].flow for name in views.RULES} <= VIEWS
    assert {OPERATIONS[name].flow for name in pieces.SEVERAL} == {Flow.SPLIT}
    assert {OPERATIONS[name].flow for name in ranks.SEVERAL} == {Flow.SORT, Flow.SCAN, Flow.POOLING}
    others = {name for name in SEVERAL if name not in (*pieces.SEVERAL, *ranks.SEVERAL)}
    assert {OPERATIONS[name].flow for name in others} == {Flow.REDUCTION, Flow.COMPOSITE}
    assert {OPERATIONS[name].flow for name in cells.RULES} == {Flow.COMPOSITE}
