"""On a GPU: kernels from their stored cubins as torch operators, on torch's streams and beside its own kernels."""

import threading
from dataclasses import replace

import pytest

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import KNOWN, detect
from cutegen_core.problems.library import load
from cutegen_core.propose.playbook import Target, propose
from cutegen_core.records.errors import UsageError
from tests.later import Later
from tests.operators.plugs import SCRATCH, SUM
from tests.operators.test_gather_mean import GRADIENTS, graph, torchs

torch = Later("torch")
operators = Later("cutegen_core.operators")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]


@pytest.fixture(scope="module")
def compiler():
    made = Compiler(detect().arch)
    yield made
    made.close()


@pytest.fixture(scope="module")
def take(compiler, tmp_path_factory):
    """The playbook's kernel of a problem, compiled for this device."""

    def source(name, level):
        problem = load(name)
        with Reference(problem, tmp_path_factory.mktemp(name)) as reference:
            own = problem.workloads[0]
            found = propose(reference.graph(own), reference.signature(own), name, Target(allow=problem.allow))
            text = next(variant.source for variant in found if variant.name == level)
            return operators.compiled(problem, text, detect().arch, compiler=compiler, reference=reference)

    return source


@pytest.fixture(scope="module")
def aggregates(take):
    forward = take("gather_mean", "persistent")
    return {name: operators.GatherMean(forward, take(name, "packed") if name else None) for name in GRADIENTS}


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize(("width", "edges"), [(128, 5000), (7, 65), (256, 40_000)])
def test_values_and_gradients_are_those_of_embedding_bag(aggregates, gradient, width, edges):
    """Backward runs in a thread of autograd's, which may have no context of the driver yet."""
    table, idx, indptr = graph(1, edges=edges, width=width)
    table, idx, indptr = table.detach().cuda().requires_grad_(), idx.cuda(), indptr.cuda()
    other = table.detach().clone().requires_grad_()
    got, want = aggregates[gradient](table, idx, indptr), torchs(other, idx, indptr)
    torch.testing.assert_close(got, want)
    along = torch.randn_like(want)
    got.backward(along)
    want.backward(along)
    torch.testing.assert_close(table.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_calls_keep_the_order_of_the_stream_they_are_made_on(aggregates):
    table, idx, indptr = (t.detach().cuda() for t in graph(2, edges=30_000, width=128))
    want = torchs(table + 1, idx, indptr)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        moved = table + 1  # not there yet when the kernel is enqueued
        got = aggregates[""](moved, idx, indptr)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(got, want)


def test_a_thread_of_its_own_can_launch(aggregates):
    table, idx, indptr = (t.detach().cuda() for t in graph(3))
    found = []
    thread = threading.Thread(target=lambda: found.append(aggregates[""](table, idx, indptr)))
    thread.start()
    thread.join()
    torch.testing.assert_close(found[0], torchs(table, idx, indptr))


def test_a_call_is_captured_into_a_graph_and_compiled(aggregates):
    table, idx, indptr = (t.detach().cuda() for t in graph(4))
    aggregates[""](table, idx, indptr)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = aggregates[""](table, idx, indptr)
    table.mul_(2)
    captured.replay()
    torch.testing.assert_close(out, torchs(table, idx, indptr))
    whole = torch.compile(lambda *given: aggregates[""](*given) + 1, fullgraph=True)
    torch.testing.assert_close(whole(table, idx, indptr), torchs(table, idx, indptr) + 1)


def test_tensors_that_are_not_aligned_or_not_contiguous_are_copied(aggregates):
    table, idx, indptr = (t.detach().cuda() for t in graph(5))
    shifted = torch.empty(table.numel() + 1, device="cuda")[1:].view_as(table).copy_(table)
    assert shifted.data_ptr() % 16
    torch.testing.assert_close(aggregates[""](shifted, idx, indptr), torchs(table, idx, indptr))
    across = table.t().contiguous().t()
    torch.testing.assert_close(aggregates[""](across, idx, indptr), torchs(table, idx, indptr))


@pytest.mark.parametrize("cluster", ["", "cluster = [2]"])
def test_scratch_shared_memory_clusters_cooperation_and_numbers(compiler, tmp_path, cluster):
    text = SCRATCH.replace("CLUSTER", cluster)
    with Reference(SUM, tmp_path) as reference:
        made = operators.compiled(SUM, text, detect().arch, compiler=compiler, reference=reference)
    plugged = operators.plug(made)
    for n in (1, 128, 5000):
        x = torch.randn(n, device="cuda")
        for scale in (0.5, -2.0):
            torch.testing.assert_close(plugged(x, scale=scale), (x * scale).sum().reshape(1), rtol=1e-4, atol=1e-4)


def test_a_kernel_of_another_architecture_or_without_its_cubin_is_refused(take):
    made = take("gather_mean", "naive")
    given = [t.detach().cuda() for t in graph(6)]
    foreign = next(arch for arch in KNOWN if arch != made.arch)
    with pytest.raises(UsageError, match=f"was compiled for {foreign}, and .* is sm_"):
        operators.plug(replace(made, arch=foreign))(*given)
    with pytest.raises(UsageError, match="the cubin of gather_mean was not kept in the store"):
        operators.plug(replace(made, cubin=b""))(*given)
    other = take("gather_rows", "naive")
    with pytest.raises(UsageError, match="does not hold"):
        operators.plug(replace(made, cubin=other.cubin))(*given)


def test_the_hosts_part_of_a_call_is_short(aggregates):
    """Enqueueing, with the check of tensors, the plan, two allocations and the driver's call: microseconds."""
    import time

    table, idx, indptr = (t.detach().cuda() for t in graph(7))
    runner = aggregates[""]._runner
    for _ in range(20):
        runner(table, idx, indptr)
    best = float("inf")
    for _ in range(10):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(100):
            runner(table, idx, indptr)
        best = min(best, (time.perf_counter() - started) / 100)
    assert best < 100e-6
