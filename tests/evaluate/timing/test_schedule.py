"""How samples are shared out, and when eager is a library call."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutegen_core.evaluate.roofline.library_calls import library_call
from cutegen_core.evaluate.timing import schedule
from cutegen_core.records.graph import Graph, Node, Ref

SETS = range(1, 9)


@given(st.floats(0.5, 5e6), st.floats(0.5, 5e6), st.integers(1, 24))
def test_everybody_gets_enough_samples_and_nobody_takes_for_ever(candidate, baseline, sets):
    count = schedule.count_rounds(candidate)
    shares = {"a": schedule.plan_share(candidate, count, range(1, sets + 1))}
    shares["b"] = schedule.plan_share(baseline, count, range(1, sets + 1))
    turns = Counter(name for _, name in schedule.iterate_turns(shares, range(count)))
    assert count % 2 == 0
    for name, us in (("a", candidate), ("b", baseline)):
        taken = turns[name] * len(shares[name].order)
        assert taken >= min(schedule.LEAST if us < schedule.VERY_SLOW_US else schedule.LEAST_VERY_SLOW, count)
        assert taken <= 2 * schedule.count_samples(us) + count
        assert len(set(shares[name].order)) == len(shares[name].order)


@pytest.mark.parametrize(("us", "least"), [(5.0, 96), (100.0, 96), (1e3, 96), (9e3, 30), (1e5, 4), (2e6, 2)])
def test_ordinary_kernels_get_thirty_samples_long_ones_fewer(us, least):
    count = schedule.count_rounds(us)
    share = schedule.plan_share(us, count, SETS)
    assert count // share.every * len(share.order) >= least


def test_orders_alternate():
    share = schedule.RoundShare((1,), 1, 1, 1.0)
    turns = [name for _, name in schedule.iterate_turns({"a": share, "b": share, "c": share}, range(2))]
    assert turns == ["a", "b", "c", "c", "b", "a"]


def graph(*operations):
    nodes = [Node("x", "input", (), {}, (4, 4), "float32")]
    for number, operation in enumerate(operations):
        nodes.append(Node(f"n{number}", operation, (Ref(nodes[-1].name),), {}, (4, 4), "float32"))
    return Graph(tuple(nodes), (nodes[-1].name,))


def test_one_library_operation_with_views_has_a_name():
    assert library_call(graph("aten.t", "aten.mm")) == "torch.mm"
    assert library_call(graph("aten.softmax")) == "torch.softmax"
    assert library_call(graph("aten.mm", "aten.relu")) is None
    assert library_call(graph("aten.relu")) is None
    assert library_call(Graph(reason="it looks at values")) is None
