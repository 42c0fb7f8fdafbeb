"""The aggregation by plugged kernels: forward and backward as torch's own, on the emulator."""

from __future__ import annotations

import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import Autonomy
from tests.few_runs import few_runs
from tests.later import Later
from tests.operators.plugs import source_of
from tests.session.real_sessions import loop

torch = Later("torch")
functional = Later("torch.nn.functional")
operators = Later("cutegen_core.operators")
gather_mean = Later("cutegen_core.operators.gather_mean")

GRADIENTS = ["", "gather_mean_backward", "gather_mean_backward_deterministic"]


@pytest.fixture(
    scope="module",
    params=[("naive", "naive"), pytest.param(("persistent", "packed"), marks=pytest.mark.thorough)],
    ids=["naive", "wide"],
)
def levels(request):
    """Take the aggregation's kernel and those of its gradient; the naive ones compile in a third of the time."""
    return request.param


@pytest.fixture(scope="module")
def forward(levels, shared):
    return source_of("gather_mean", levels[0], shared)


@pytest.fixture(scope="module")
def aggregates(levels, forward, shared):
    """By the problem of the gradient's kernel, "" for torch's own."""
    return {
        name: operators.GatherMean(forward, source_of(name, levels[1], shared) if name else None) for name in GRADIENTS
    }


def graph(seed, sources=61, rows=17, edges=140, width=24):
    """Return a table that wants a gradient; rows 3 and 4 and the last one are empty, row 8 is a hub."""
    draw = torch.Generator().manual_seed(seed)
    degrees = torch.bincount(torch.randint(0, rows, (edges // 2,), generator=draw), minlength=rows)
    degrees[[3, 4, rows - 1]] = 0
    degrees[8] += edges - int(degrees.sum())
    indptr = torch.cat((torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)))
    table = torch.randn(sources, width, generator=draw, requires_grad=True)
    return table, torch.randint(0, sources, (edges,), generator=draw), indptr


def torchs(table, idx, indptr):
    return functional.embedding_bag(idx, table, indptr, mode="mean", include_last_offset=True)


@pytest.mark.by_default(2)
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize(("width", "edges"), [(24, 140), (7, 65)])
def test_values_and_gradients_are_those_of_embedding_bag(aggregates, gradient, width, edges):
    table, idx, indptr = graph(width, edges=edges, width=width)
    other = table.detach().clone().requires_grad_()
    got, want = aggregates[gradient](table, idx, indptr), torchs(other, idx, indptr)
    torch.testing.assert_close(got, want)
    assert not got[[3, 4, 16]].any()
    along = torch.randn_like(want)
    got.backward(along)
    want.backward(along)
    torch.testing.assert_close(table.grad, other.grad)


@pytest.mark.parametrize("gradient", GRADIENTS[1:])
def test_the_gradient_is_the_slope(aggregates, gradient):
    """The kernels are float32, so the slope is taken over a long step: the mean is linear in the table."""
    table, idx, indptr = graph(3, sources=9, rows=17, edges=40, width=4)
    aggregate = aggregates[gradient]
    along = torch.randn(17, 4)
    aggregate(table, idx, indptr).backward(along)
    for source, column in ((0, 0), (4, 3), (8, 1)):
        step = torch.zeros_like(table)
        step[source, column] = 8.0
        moved = aggregate((table + step).detach(), idx, indptr) - aggregate((table - step).detach(), idx, indptr)
        assert float((moved * along).sum()) / 16.0 == pytest.approx(float(table.grad[source, column]), abs=1e-4)


def test_torch_finds_nothing_wrong_with_the_operators(aggregates):
    """Schemas, fake tensors, autograd registration, and tracing forward and backward with symbolic shapes."""
    for gradient in GRADIENTS:
        torch.library.opcheck(aggregates[gradient]._operator, graph(1))


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_a_direct_call_gives_what_the_operator_gives(aggregates, gradient):
    """Ordinary calls go round the dispatcher: bit for bit the same, forward and backward."""
    table, idx, indptr = graph(12)
    other = table.detach().clone().requires_grad_()
    direct, dispatched = aggregates[gradient](table, idx, indptr), aggregates[gradient]._operator(other, idx, indptr)
    assert "PluggedGatherMean" in direct.grad_fn.name()
    assert "PluggedGatherMean" not in dispatched.grad_fn.name()
    assert torch.equal(direct, dispatched)
    along = torch.randn_like(direct)
    direct.backward(along)
    dispatched.backward(along)
    if gradient.endswith("deterministic"):
        assert torch.equal(table.grad, other.grad)
    torch.testing.assert_close(table.grad, other.grad)
    with torch.no_grad():
        assert torch.equal(aggregates[gradient](table, idx, indptr), direct)


def test_a_gradient_of_the_gradient_is_torchs_or_refused(aggregates):
    """Never a wrong one: a kernel's call that autograd does not see would be taken for a constant."""
    for gradient in GRADIENTS:
        table, idx, indptr = graph(13)
        along = torch.ones(17, 24, requires_grad=True)
        (first,) = torch.autograd.grad(aggregates[gradient](table, idx, indptr), table, along, create_graph=True)
        if gradient:
            with pytest.raises(RuntimeError, match="no autograd formula"):
                first.square().sum().backward()
        else:
            first.square().sum().backward()
            assert along.grad.abs().sum() > 0


def test_tracing_takes_the_operator(aggregates):
    """It passes tensors without memory, from which no kernel can be launched."""
    table, idx, indptr = graph(14)
    traced = torch.fx.experimental.proxy_tensor.make_fx(aggregates[""], tracing_mode="fake")(table, idx, indptr)
    assert "cutegen" in traced.code
    whole = torch.compile(lambda *given: aggregates[""](*given) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(table, idx, indptr), torchs(table, idx, indptr) + 1)


def test_an_epoch_with_the_kernels_is_the_epoch_without(aggregates):
    def losses(aggregate):
        torch.manual_seed(0)
        table, idx, indptr = graph(5)
        layer = torch.nn.Linear(24, 6)
        labels = torch.arange(17) % 6
        optimiser = torch.optim.Adam(layer.parameters(), 0.05)
        found = []
        for _ in range(4):
            optimiser.zero_grad()
            loss = functional.cross_entropy(layer(aggregate(torch.relu(table), idx, indptr)), labels)
            loss.backward()
            optimiser.step()
            found.append(loss.item())
        return found

    want = losses(torchs)
    assert want[-1] < want[0]
    for aggregate in aggregates.values():
        assert losses(aggregate) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("edges", [0, 1])
def test_graphs_with_hardly_anything(aggregates, edges):
    table = torch.randn(3, 8, requires_grad=True)
    indptr = torch.tensor([0, 0, edges])
    for aggregate in aggregates.values():
        out = aggregate(table, torch.zeros(edges, dtype=torch.int64), indptr)
        assert torch.equal(out, torch.stack((torch.zeros(8), table[0].detach() * edges)))
        out.sum().backward()
    empty = aggregates[""](torch.randn(3, 8), torch.zeros(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    assert empty.shape == (0, 8)


def test_the_transposed_graph_lists_for_each_source_its_rows():
    idx, indptr = torch.tensor([2, 0, 2, 2, 4]), torch.tensor([0, 2, 2, 5])
    users, starts = gather_mean.transpose(gather_mean.Entries(idx, indptr, 6))
    assert users.tolist() == [0, 0, 2, 2, 2]
    assert starts.tolist() == [0, 1, 1, 4, 4, 5, 5]


def test_a_gradient_over_transposed_rows_that_are_given_is_the_one_over_sorted_rows(aggregates, monkeypatch):
    """Bit for bit, and torch sorts nothing; an aggregation with atomics takes no notice of them."""
    table, idx, indptr = graph(21)
    back = gather_mean.transpose(gather_mean.Entries(idx, indptr, len(table)))
    along = torch.randn(17, 24)

    def gradient(aggregate, transposed):
        return torch.autograd.grad(aggregate(table, idx, indptr, transposed), table, along)[0]

    for name, aggregate in aggregates.items():
        assert aggregate.ordered is name.endswith("deterministic")
        want = gradient(aggregate, None)
        with monkeypatch.context() as patched:
            patched.setattr("cutegen_core.operators.gather_mean.transpose", lambda entries: 1 / 0)
            assert torch.equal(gradient(aggregate, back), want)


def test_without_a_kernel_torch_adds_the_gradient_up_in_one_order(forward, aggregates):
    aggregate = operators.GatherMean(forward, deterministic=True)
    assert aggregate.ordered
    table, idx, indptr = graph(22)
    found, want = (torch.autograd.grad(one(table, idx, indptr).sum(), table)[0] for one in (aggregate, torchs))
    torch.testing.assert_close(found, want)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_kernel_that_adds_up_wrongly_is_not_plugged_in(shared):
    wrong = source_of("gather_mean", "naive", shared, ("sum / static_cast<float>(end - begin)", "sum"))
    with pytest.raises(UsageError, match="does not compute what its place needs: on a small graph it differs"):
        operators.GatherMean(wrong)


def test_kernels_of_another_place_or_dtype_are_refused(forward, shared):
    rows = source_of("gather_rows", "naive", shared)
    with pytest.raises(UsageError, match=r"takes \(table, idx\): it is no kernel of gather_mean"):
        operators.GatherMean(rows)
    with pytest.raises(UsageError, match=r"no kernel of gather_mean_backward, which takes \(grad, idx, indptr\) or"):
        operators.GatherMean(forward, rows)
    narrow = source_of("gather_mean_backward_deterministic_bf16", "naive", shared)
    with pytest.raises(UsageError, match=r"takes gradients of torch\.bfloat16: choose a backward kernel of the same"):
        operators.GatherMean(forward, narrow)


def test_a_gradient_with_atomics_is_refused_where_one_order_is_asked_for(forward, shared):
    backward = source_of("gather_mean_backward", "naive", shared)
    with pytest.raises(UsageError, match="adds up its gradient with atomics, in no fixed order: name a kernel of"):
        operators.GatherMean(forward, backward, deterministic=True)


def test_tensors_that_the_kernel_was_not_made_for_are_refused(aggregates):
    aggregate = aggregates[""]
    table, idx, indptr = graph(0)
    with pytest.raises(UsageError, match=r"table is torch\.float16, but the kernel was made for torch\.float32"):
        aggregate(table.half(), idx, indptr)
    with pytest.raises(UsageError, match=r"idx is torch\.int32, but the kernel was made for torch\.int64"):
        aggregate(table, idx.int(), indptr)
    with pytest.raises(UsageError, match="table has 1 dimensions, the kernel's 2"):
        aggregate(table[0], idx, indptr)
    with pytest.raises(UsageError, match=r"indptr is on meta, table on cpu; all must be on one device"):
        aggregate._runner(table, idx, indptr.to("meta"))


def test_a_graph_for_which_the_emulator_takes_hours_is_refused_at_once(aggregates):
    with pytest.raises(UsageError, match=r"would run on the CPU emulator here.*Use a smaller graph, or a GPU"):
        aggregates[""](torch.empty(100_000, 100), torch.zeros(9, dtype=torch.int64), torch.tensor([0, 9]))


# -- from a session ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("plugged")) as made:
        yield made


@pytest.fixture(scope="module")
def sessions(desk):
    """Accepted sessions of both problems, one step each."""
    names = ("gather_mean", "gather_mean_backward")
    started = [desk.start(few_runs(name), autonomy=Autonomy.AUTO, max_steps=1) for name in names]
    for session in started:
        desk.go(session)
    return started


def test_kernels_of_sessions_are_plugged_in_by_their_steps(desk, sessions):
    aggregate = operators.gather_mean_of(desk.store, f"{sessions[0]}.1+{sessions[1]}.1")
    table, idx, indptr = graph(11)
    other = table.detach().clone().requires_grad_()
    aggregate(table, idx, indptr).sum().backward()
    torchs(other, idx, indptr).sum().backward()
    torch.testing.assert_close(table.grad, other.grad)
    assert f"{sessions[0]}.1 runs on the CPU emulator" in aggregate.note
    assert f"gradient: {sessions[1]}.1 runs on the CPU emulator" in aggregate.note


def test_steps_that_are_not_there_are_refused(desk, sessions):
    with pytest.raises(UsageError, match=f"session {sessions[0]} has no step 7 with a kernel"):
        operators.gather_mean_of(desk.store, f"{sessions[0]}.7")
    with pytest.raises(UsageError, match="no session 'zzz'"):
        operators.gather_mean_of(desk.store, "zzz.1")


def test_a_kernel_that_failed_is_refused(desk):
    wrong = few_runs("gather_mean")
    session = desk.start(wrong, max_steps=3)
    desk.go(session)
    text = desk.store.text(operators.read_step.__globals__["state_of"](desk.store, session).steps[0].candidate)
    from cutegen_core.records.decision import DecisionKind

    state = desk.decide(session, DecisionKind.EDIT, source=text.replace("sum +=", "sum ="))
    assert state.step.status.value == "INCORRECT_NUMERICAL"
    with pytest.raises(UsageError, match=r"is INCORRECT_NUMERICAL: only one that PASSED can be plugged in"):
        operators.gather_mean_of(desk.store, f"{session}.{state.step.number}")
