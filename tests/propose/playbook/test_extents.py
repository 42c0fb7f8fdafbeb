"""What is left of a size, at every size: as Python's slices have it."""

from __future__ import annotations

import pytest

from cutegen_core.propose.playbook.graphs.sizes import with_sizes
from cutegen_core.propose.playbook.rules.views import position_of
from cutegen_core.propose.playbook.values import NotInPlaybook, SizedInt, Value, broadcast
from cutegen_core.propose.playbook.values.extents import ONE, Extent, at_least_one, at_most, combined
from cutegen_core.propose.playbook.windows.geometry import over
from cutegen_core.records.graph import Graph, Node, Ref
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec

SIZES = {"n": (16, 1), "(n // 2)": (8, 0)}
N, M, LONGER = Extent("n", 8), Extent("m", 4), Extent("n1", 9)


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        (N, Extent("3", 3)), (N, M), (N, N), (N, Extent("(n + 1)", 9)), (N, LONGER), (N, N.times(M)), (ONE, ONE),
        (Extent("2", 2), M), (Extent("2", 2), Extent("(m - 2)", 2)), (Extent("2", 2), Extent("12", 12)),
        (N, position_of(4, N)), (N, position_of(-3, N)), (N, at_most(M, N)), (N, Extent("(n // 1)", 8)),
        (N.times(Extent("2", 2)), N), (position_of(-1, N), Extent("2", 2)), (N, N.less(M).less(ONE)),
        (position_of(-1, N), at_most(Extent("2", 2), position_of(-1, N))),
    ],
    ids=lambda extent: extent.text,
)  # fmt: skip
def test_what_is_left_is_never_less_than_nothing(whole: Extent, part: Extent) -> None:
    left = whole.less(part)
    for n in range(1, 10):
        for m in range(1, 10):
            sizes = {"n": n, "m": m, "n1": n + 1}
            value, expected = (eval(text, {}, sizes) for text in (left.text, f"max({whole.text} - ({part.text}), 0)"))
            assert value == expected
            assert value > 0 or left.may_be_none or eval(whole.text, {}, sizes) == 0
    assert left.size == max(whole.size - part.size, 0)


@pytest.mark.parametrize("many", [False, True])
def test_what_is_repeated_at_some_sizes_only_has_no_kernel(many: bool) -> None:
    """Eight columns of a row are one where the row is no longer, and as many as there are rows elsewhere."""
    own, full = (Extent(text, SizedInt.of(8, text, seen)) for text, seen in (("min(8, n)", (8, 1)), ("m", (8, 8))))
    values = [Value((full,), "float32"), Value((full if many else own,), "float32")]
    if many:
        assert broadcast(values) == (full,)
    else:
        with pytest.raises(NotInPlaybook, match=r"size min\(8, n\), which is repeated along m at some sizes only"):
            broadcast(values)


def test_a_size_that_becomes_nothing_divides_nothing() -> None:
    """At the second workload an image of one element is pooled to `n // 2` places."""
    n, half = (Extent(text, SizedInt.of(values[0], text, values)) for text, values in SIZES.items())
    assert at_least_one(n) is n
    assert over(n, half).text == "(n // (max((n // 2), 1)))"
    assert over(n, half).everywhere == (2, 1)
    with pytest.raises(NotInPlaybook, match="divides by 0 at one of the workloads"):
        combined("n % (n // 2)", lambda whole, part: whole % part, n, half)


@pytest.mark.parametrize(
    ("counted", "text"),
    [
        (lambda b, c, h, w: b * h * w, "x.shape[0] * x.shape[2] * x.shape[3]"),
        (lambda b, c, h, w: b * h * w - 1, "((x.shape[0] * x.shape[2] * x.shape[3]) - 1)"),
        (lambda b, c, h, w: float(b * h * w), "1.0 * (x.shape[0] * x.shape[2] * x.shape[3])"),
    ],
    ids=["whole", "less one", "as a float"],
)
def test_a_count_of_some_dimensions_follows_them(counted, text) -> None:
    """A mean over all but the channels divides by it."""

    def traced(*sizes: int) -> tuple[Graph, Signature]:
        inputs = (TensorSpec("x", "float32", sizes, TensorRole.INPUT),)
        x = Node("x", "input", (), {}, sizes, "float32")
        nodes = (x, Node("div", "aten.div", (Ref("x"), counted(*sizes)), {}, sizes, "float32"))
        return Graph(nodes, ("div",)), Signature(inputs, (TensorSpec("out", "float32", sizes, TensorRole.OUTPUT),), {})

    graph, signature = traced(8, 16, 30, 20)
    assert with_sizes(graph, signature, [traced(3, 5, 7, 11)]).nodes[1].args[1].text == text
