"""Everything that reads a traced graph, and calls of every operation in PyTorch's catalogue: nothing is raised.

A session would end where its bounds, its prompt or its class cannot be found.
"""

from __future__ import annotations

import pytest

from cutegen_core.records.errors import ProblemError
from tests.later import Later
from tests.torch_catalogue import catalogue

tracing = Later("cutegen_core.judge.reference_process.tracing")
worker = Later("cutegen_core.judge.reference_process.worker")
input_facts = Later("cutegen_core.judge.reference_process.input_facts")
work = Later("cutegen_core.evaluate.roofline.work")
products = Later("cutegen_core.evaluate.roofline.products")
library_calls = Later("cutegen_core.evaluate.roofline.library_calls")
graph_notes = Later("cutegen_core.propose.prompting.graph_notes")
classify = Later("cutegen_core.propose.families.classify")

FEW = 120
L2_BYTES = 1 << 20


@pytest.mark.parametrize("one_in", [FEW, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_reader_of_a_graph_takes_every_operation(one_in: int) -> None:
    raised, read = [], 0
    for call in catalogue(one_in):
        source = call.problem.source
        try:
            signature = worker.trace_signature(source, "here")
            facts = input_facts.input_facts(source, "here")
        except ProblemError:  # it does not run on what is drawn
            continue
        graph = tracing.trace(source, "here")
        read += bool(graph.nodes)
        try:
            read_by_all(graph, signature, facts)
        except Exception as error:  # noqa: BLE001 - what is raised is what the test looks for
            raised.append(f"{call.text}: {type(error).__name__}: {error}")
    assert raised == []
    assert read > 1500 / one_in


def read_by_all(graph, signature, facts) -> None:
    shown, least = work.graph_work(graph, signature), work.compulsory_work(graph, signature, L2_BYTES, facts)
    for dtype, flops in least.flops.items():
        assert flops <= shown.flops[dtype], "what no algorithm avoids is more than what the graph does"
    products.products(graph, facts)
    work.unfused_bytes(graph)
    library_calls.library_call(graph)
    graph_notes.describe(graph, signature)
    classify.classify(graph)
    classify.is_chain(graph)
