"""What the form and the command line let through, the run does not refuse."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.records.gnn_fields import BY_NAME, read_settings
from cutegen_core.workloads.gnn.training.settings import check_settings

TEXTS = {
    "task": ("train", "infer", "bench"), "model": ("sage", "gat", "gin", "sage-residual"), "hidden": ("1", "6", "64"),
    "fanouts": ("1", "3,2", "15,10,5"), "inference_fanouts": ("2", "3,2", "20,20,20"), "batch_size": ("1", "3", "512"),
    "epochs": ("1", "7"), "learning_rate": ("0.003", "1e-8", "10"), "dropout": ("0", "0.99"), "slots": ("0", "1", "9"),
    "threads": ("0", "3"), "device": ("cpu", "cuda", "sleep:20", "sleep:0.5"), "ranks": ("1", "2", "4"),
    "aggregate": ("embedding_bag", "spmm", "kernel:abcd1234.2", "kernel:abcd1234.2+ef567890.1"), "trials": ("1", "3"),
    "gradient": ("any", "deterministic"),
    "checkpoint": ("", "/tmp/kept"), "precision": ("fp32", "tf32", "bf16"), "features": ("host", "device"),
    "seed": ("0", "7"),
    "graph.source": ("blocks", "/data/x"), "graph.nodes": ("100", "20000"), "layered": ("yes", "no"),
}  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.fixed_dictionaries({name: st.sampled_from(texts) for name, texts in TEXTS.items()}))
def test_they_agree(texts: dict[str, str]) -> None:
    assert set(texts) <= set(BY_NAME)
    asked, wrong = read_settings(texts)
    if not wrong:
        check_settings(asked)
