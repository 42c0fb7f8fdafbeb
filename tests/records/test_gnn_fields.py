"""Every setting of a GNN run can be typed, is refused in words where it is wrong, and reads back as it was."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphSettings, ModelName, RunSettings, Task
from cutegen_core.records.gnn_fields import BY_NAME, FIELDS, check, read_settings


def test_the_table_has_every_setting_once() -> None:
    own = [field.name for field in fields(RunSettings) if field.name != "graph"]
    of_graph = [f"graph.{field.name}" for field in fields(GraphSettings)]
    assert sorted(BY_NAME) == sorted(own + of_graph)
    assert len(FIELDS) == len(BY_NAME) == len({field.option for field in FIELDS})


def test_what_is_written_reads_back() -> None:
    asked = replace(RunSettings(), graph=GraphSettings("/data/a b"), layered=True, fanouts=(3, 2),
                       inference_fanouts=(9, 9), learning_rate=1e-4, device="sleep:2.5", model=ModelName.GAT,
                       task=Task.BENCH)  # fmt: skip
    texts = {field.name: field.text(asked) for field in FIELDS}
    assert read_settings(texts) == (asked, {})
    check(asked)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("epochs", "0", "'0' is no whole number from 1 to 100,000."), ("epochs", "1e3", "no whole number"),
        ("epochs", "٣", "no whole number"), ("epochs", "9" * 5000, "…' is no whole number"),
        ("fanouts", "", "no list of 1 to 6 numbers, such as 15,10,5"), ("fanouts", "3,0", "'0' is no whole number"),
        ("fanouts", "1,1,1,1,1,1,1", "no list of 1 to 6"), ("learning_rate", "nan", "no number from 1e-08 to 10"),
        ("learning_rate", "inf", "no number"), ("dropout", "1", "no number from 0 to below 1"),
        ("model", "resnet", "none of sage, gat, gin, sage-residual"), ("layered", "1", "neither yes nor no"),
        ("device", "sleep:", "none of cpu, cuda, sleep:MILLISECONDS"), ("device", "sleep:0", "none of"),
        ("device", "cuda:1", "none of"),
        ("device", "sleep:1e3", "none of"), ("slots", "1", "1 is too few"),
        ("slots", "1025", "from 0 to 1,024"), ("graph.source", " ", "name a graph"),
        ("aggregate", "segment", "none of embedding_bag, index_add, spmm, and no kernel:SESSION.STEP"),
        ("aggregate", "kernel:../../x.1", "none of"), ("aggregate", "kernel:abcd1234.0", "none of"),
        ("checkpoint", "a\0b", "no path"), ("batch_size", "-5", "no whole number"),
    ],
)  # fmt: skip
def test_a_wrong_text_is_refused_in_words(name: str, text: str, said: str) -> None:
    read, wrong = read_settings({name: text})
    assert list(wrong) == [name]
    assert said in wrong[name]
    assert read == RunSettings()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"fanouts": (3, 3)}, "inference_fanouts"), ({"batch_size": 2, "ranks": 4}, "batch_size"),
        ({"graph": GraphSettings(nodes=100, degree=100)}, "graph.degree"),
        ({"graph": GraphSettings(nodes=100, classes=50)}, "graph.classes"),
        ({"task": Task.INFER}, "checkpoint"), ({"device": "sleep:5", "ranks": 2}, "ranks"),
        ({"device": "sleep:5", "checkpoint": "/tmp/x"}, "checkpoint"),
        ({"model": ModelName.GAT, "hidden": 6}, "hidden"),
        ({"model": ModelName.GAT, "aggregate": "spmm"}, "aggregate"),
        ({"device": "sleep:5", "aggregate": "kernel:abcd1234.2"}, "device"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(changes: dict[str, object], name: str) -> None:
    asked = replace(RunSettings(), **changes)  # type: ignore[arg-type]
    _, wrong = read_settings({}, asked)
    assert list(wrong) == [name]
    with pytest.raises(UsageError, match=BY_NAME[name].title):
        check(asked)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(BY_NAME)), st.text(max_size=60))
def test_no_text_breaks_a_field(name: str, text: str) -> None:
    read_settings({name: text})
