"""CuTeGen's strategy with a model that answers over HTTP like a mediocre one; every kernel is really tried."""

import re

import pytest

from cutegen_core import views
from cutegen_core.kernel.kernel_file import is_tunable
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Autonomy
from cutegen_core.records.event import AnsweredBy, ModelCalled, Outcome, Role, SessionState, StepStarted
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import Status
from tests.few_runs import few_runs
from tests.model_server import ModelServer, reply
from tests.session.real_sessions import loop


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("strategy"), run_timeout_s=0.5) as made:
        yield made


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Serves a script of reply texts as the only model there is."""
    servers = []

    def start(*texts):
        waiting = list(texts)

        def answer(request):
            """Return the next text; a diagnosis where one is asked for."""
            if ASKS_FOR_A_DIAGNOSIS in request.question:
                return reply(DIAGNOSIS, size=400)
            return reply(waiting.pop(0) if len(waiting) > 1 else waiting[0], size=400)

        server = ModelServer(answer)
        server.__enter__()
        servers.append(server)
        model_settings.write(Models((ModelSettings("test", server.base_url, "test-model", context_tokens=200_000),)))
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)
    model_settings.path().unlink(missing_ok=True)


def kernels(desk, name):
    """Return two honest kernels for a problem: a plain one and a better one."""
    problem = library.load(name)
    session = desk.start(name, answered_by=AnsweredBy.PERSON)
    state = views.session_view(desk.store, session).state
    reference = desk.tools.evaluator(session, state.settings).reference
    workload = problem.with_role(WorkloadRole.BENCHMARK)[0]
    variants = playbook.propose(reference.graph(workload), reference.signature(workload), name)
    return variants[0].source, variants[1].source


def whole(idea, source):
    return f"Idea: {idea}\nEffect: faster\nRisk: none\n```cpp\n{source}```\n"


ASKS_FOR_A_DIAGNOSIS = "Do not write the new kernel yet"
DIAGNOSIS = "Cause: blocks go to the wrong tile\nEvidence: half the output is untouched\nFix: use blockIdx.x"


def patch(search, replacement):
    return f"Idea: mend\n<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE\n"


INCLUDE, USING = "#include <cute/tensor.hpp>", "using namespace cute;"


def wrong_tile(source):
    """Write a kernel in which every second tile is computed twice and the ones between never."""
    head, body = source.split("*/", 1)
    return head + "*/" + body.replace("blockIdx.x", "(blockIdx.x / 2)")


def endless(source):
    """Change a constant, so that an odd number never becomes the (even) number of threads."""
    head, body = source.split("*/", 1)
    start = body.index("{", body.index("__global__"))
    loop = "unsigned spin = 1; while (spin != blockDim.x) spin = spin * 2654435761u | 1u; if (spin == 7u) return;"
    return f"{head}*/{body[: start + 1]}\n  {loop}\n{body[start + 1 :]}"


@pytest.mark.parametrize(
    ("name", "idea"),
    [
        pytest.param("softmax", "warp-shuffle", marks=pytest.mark.thorough),
        pytest.param("matmul_square", "shared-tile", marks=pytest.mark.thorough),
        ("gelu", "coalesce"),
    ],
)
def test_a_mediocre_model_is_brought_to_an_accepted_kernel(desk, serve, name, idea):
    plain, better = kernels(desk, name)
    server = serve(
        whole("seed: one thread each", plain.replace(USING + "\n", "")),
        patch("#include <cute/layout_that_is_not_there.hpp>", USING),
        patch(INCLUDE, f"{INCLUDE}\n{USING}"),
        whole(f"{idea}: tiles", wrong_tile(better)),
        whole(f"{idea}: tiles", endless(better)),
        whole(f"{idea}: tiles", better),
        whole(f"{idea}: tiles again", plain),
        whole(f"{idea}: once more", plain),
        "DONE: nothing else is worth trying",
    )
    session = desk.start(few_runs(name), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
    state = desk.go(session)

    assert state.status is SessionState.ACCEPTED, state.reason
    last = state.steps[4]
    assert last.outcome is Outcome.PROMOTED or last.note.startswith("not measured; estimate")
    assert desk.store.text(last.candidate) == better
    assert [s.status for s in state.steps if s.tried] == [
        Status.COMPILE_ERROR,
        Status.PASSED,
        *[s.status for s in state.steps[2:3]],
        Status.TIMEOUT,
        Status.PASSED,
        Status.UNPARSED,
        *([Status.PASSED] if is_tunable(better) else []),
    ]
    assert state.steps[2].status in (Status.MEMORY_ERROR, Status.INCORRECT_NUMERICAL, Status.NONDETERMINISTIC)
    assert any(step.idea.startswith("tune: ") for step in state.steps) is is_tunable(better)
    diagnosed = [request for request in server.asked if ASKS_FOR_A_DIAGNOSIS in request.question]
    assert all("## The kernel file" in request.prompt for request in diagnosed)
    assert not any("is undefined" in request.question for request in diagnosed), "the compiler's error says it"
    assert "TIMEOUT" in diagnosed[-1].question
    told = [request.prompt for request in server.asked if ASKS_FOR_A_DIAGNOSIS not in request.question]
    assert "is undefined" in told[1]
    assert "could not be used" not in told[1]
    assert "does not occur in the current kernel" in told[2]
    assert "layout_that_is_not_there" in told[2].split("## Your answer could not be used")[1]
    assert DIAGNOSIS.splitlines()[0] in told[5]
    assert f"the idea '{idea}' was tried before" in told[7]
    assert idea not in re.findall(r"^- ([a-z-]+) \(", told[6].split("## This step")[-1], re.MULTILINE)


def test_blocks_that_fit_are_kept_and_only_the_others_asked_again(desk, serve):
    plain, _ = kernels(desk, "relu")
    name = re.search(r"void (\w+)\(", plain)[1]
    added = f"{patch(USING, f'{USING} // one')}{patch('// not there', '// two')}"
    server = serve(
        whole("seed: plain", plain), added, patch(f"void {name}", f"inline void {name}"), "DONE: enough",
    )  # fmt: skip
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO, max_steps=2)
    state = desk.go(session)
    assert len(state.steps[1].calls) == 2
    source = desk.store.text(state.steps[1].candidate)
    assert f"{USING} // one" in source
    assert f"inline void {name}" in source
    again = server.asked[2].prompt.split("## Your answer could not be used")[1]
    assert "Your other blocks fit and are kept" in again
    assert "// two" in again
    assert "// one" not in again, "a block that is kept is not told again"
    assert state.steps[1].idea == "mend"


def test_a_reply_that_is_of_no_use_twice_keeps_its_ideas_name_and_is_shown(desk, serve):
    plain, _ = kernels(desk, "relu")
    lost = "Idea: vectorise: 16 bytes an access\nI would load float4 here."
    server = serve(whole("seed: plain", plain), lost, lost, "DONE: enough")
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert (state.steps[1].status, state.steps[1].idea) == (Status.UNPARSED, "vectorise: 16 bytes an access")
    told = server.asked[3].prompt
    assert "I would load float4 here." in told.split("## Your last reply could not be used")[1]
    assert "- vectorise (" in told, "it was never tried, so it is still on the menu"


def test_a_change_of_defaults_alone_is_sent_back_before_it_costs_a_trial(desk, serve):
    plain, _ = kernels(desk, "relu")
    declared = "BLOCK = { default = 256, values = [128, 256] }"
    source = re.sub(r"^BLOCK = 256$|^BLOCK = \{.*\}$", declared, plain, flags=re.MULTILINE)
    assert declared in source
    server = serve(whole("seed: plain", source), patch("default = 256", "default = 128"), "DONE: enough")
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert "it changes declared values only" in server.asked[2].prompt
    assert [s.outcome for s in state.steps if s.candidate and not s.sweep] == [Outcome.PROMOTED]


def test_each_call_is_in_the_trajectory_with_its_tokens(desk, serve):
    plain, _ = kernels(desk, "relu")
    serve(whole("seed: plain", plain), "DONE: enough")
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert state.status is SessionState.ACCEPTED
    call = views.step_view(desk.store, session, 1).calls[0]
    assert "Write the simplest correct CuTe kernel" in call.prompt
    assert call.reply == whole("seed: plain", plain)
    assert (call.answer.prompt_tokens, call.model) == (100, "test-model")
    assert state.tokens == sum(c.tokens for s in state.steps for c in s.calls) > 0


def test_the_budget_ends_the_session_before_a_call_that_does_not_fit(desk, serve):
    server = serve("nothing")
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO, max_tokens=500)
    state = desk.go(session)
    assert state.status is SessionState.EXHAUSTED
    assert "500 are left" in state.reason
    assert server.asked == []


def test_spent_tokens_end_a_session_after_a_sweep_of_its_best_kernel(desk, serve):
    plain, _ = kernels(desk, "relu")
    declared = "BLOCK = { default = 256, values = [128, 256] }"
    source = re.sub(r"^BLOCK = 256$|^BLOCK = \{.*\}$", declared, plain, flags=re.MULTILINE)
    assert declared in source
    server = serve("a long thought. " * 7000 + whole("seed: plain", source), "never asked for")
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO, max_tokens=34_000)
    state = desk.go(session)
    assert state.status is SessionState.EXHAUSTED
    assert "of 34,000 are left" in state.reason
    assert len(server.asked) == 1
    assert [step.base for step in state.steps if step.sweep] == [state.steps[0].candidate]
    paid = views.price(state)
    assert (paid.calls, paid.promoted) == (1, 1)
    assert paid.words == f"{state.tokens:,} tokens and 1 call for each of 1 promoted kernel"


def test_a_call_that_was_lost_is_said_and_never_repeated_by_itself(desk, serve):
    server = serve(whole("seed", "/* cutegen */"))
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)

    desk.store.append(
        session, [StepStarted(1, None), ModelCalled(1, Role.PROPOSER, desk.store.put("p"), "m", 900)], after=1
    )
    state = desk.go(session)
    assert state.status is SessionState.INTERRUPTED
    assert "may have been billed" in state.reason
    assert state.tokens == 900
    assert desk.go(session).status is SessionState.INTERRUPTED
    assert server.asked == []


def test_an_unset_model_says_where_to_set_it(desk):
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert state.status is SessionState.INTERRUPTED
    assert "no language model is set up" in state.reason
    assert state.steps[0].outcome is not Outcome.PROMOTED
