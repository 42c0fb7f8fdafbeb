"""Whole recurrent layers: all steps in one kernel, a block or a cluster of blocks for the sequences."""

from pathlib import Path

import pytest

from cutegen_core.machine.device import KNOWN
from cutegen_core.propose.playbook import Target
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

SIZES, AWKWARD = {"B": 3, "T": 5, "I": 8, "H": 12}, {"B": 10, "T": 4, "I": 5, "H": 7}
INPUTS = {
    "x": "torch.randn(T, B, I)",
    "h": "torch.randn(2, B, H)",
    "w": "0.3 * torch.randn(4 * H, I)",
    "r": "0.3 * torch.randn(4 * H, H)",
    "b": "torch.randn(4 * H)",
}
LINES = [
    "p, q, u = (w, r, b, b), (0.3 * r, r.flip(0), b, b), (r * 0.5, r.flip(0), b, b)",
    "z, g, e = torch.zeros_like(h), 3 * h.shape[2], h.shape[2]",
]
FORMS = {
    "one without biases": "torch.gru(x, h[:1], [w[:g], r[:g]], False, 1, 0.0, False, False, False)[0].relu()",
    "an LSTM of two layers": "*torch.lstm(x, (h, h * 0.5), [*p, *q], True, 2, 0.0, False, False, False), x * 2",
    "its last state behind a product": (
        "torch.lstm(x.transpose(0, 1), (z, z), [*p, *q], True, 2, 0.0, False, False, True)[0][:, -1, :] @ r.t()"
    ),
    "a GRU in both directions": (
        "*torch.gru(x, h, [w[:g], r[:g], b[:g], b[:g], w[-g:], r[-g:], b[-g:], b[-g:]], True, 1, 0.0, False, True, "
        "False),"
    ),
    "plain ones": (
        "torch.rnn_tanh(x, z[:1], [w[:e], r[:e], b[:e], b[:e]], True, 1, 0.0, False, False, False)[0], "
        "torch.rnn_relu(x * 0.3, h[:1], [w[:e], r[:e]], False, 1, 0.0, False, False, False)[1]"
    ),
    "of halves": (
        "*torch.gru(x.bfloat16(), h.bfloat16()[:1], [one.bfloat16() for one in (w[:g], r[:g], b[:g], b[:g])], True, 1, "
        "0.0, False, False, False),"
    ),
    "of doubles": (
        "*torch.lstm(x.double(), (h.double()[:1], h.double()[1:]), [w.double(), r.double()], False, 1, 0.0, False, "
        "False, False),"
    ),
}


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_a_recurrent_layer_is_right(name: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    """By a block and by a cluster, or by a block alone, which compiles in a fraction of the time."""
    made = problem(FORMS[name], SIZES, AWKWARD, lines=LINES, **INPUTS)
    naive, *others = variants_of(made, shared, tmp_path, Target(KNOWN["sm_90a"]))
    clusters = next(variant for variant in others if "this_cluster()" in variant.source)
    assert "this_cluster()" not in naive.source
    assert_right(made, (naive, clusters) if every else (naive,), made.workloads, shared, tmp_path)
