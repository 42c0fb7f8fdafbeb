"""Every question of every role, read the way a model reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library, suite
from cutegen_core.propose.astra import prompting, rounds
from cutegen_core.propose.astra.roles import ROLES
from cutegen_core.propose.astra.single import SingleAgentStrategy
from cutegen_core.propose.astra.strategy import AstraStrategy
from cutegen_core.propose.port import Ask, Attempt, BenchmarkShape, Call, ProposalRequest, Unparsed
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.event import AnsweredBy, Role, SuiteTried
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import ShapeTime
from cutegen_core.records.problem import Problem, Signature, TensorRole, TensorSpec, Values, WorkloadRole
from cutegen_core.records.trial import Status
from tests.propose.cutegen.test_prompting import plain_failure

SERVING = [problem for problem in library.catalogue() if problem.existing]
SIGNATURE = Signature(
    (TensorSpec("x", "float16", (16, 64)),), (TensorSpec("out", "float16", (16, 32), TensorRole.OUTPUT),)
)  # fmt: skip


def request_for(problem: Problem) -> ProposalRequest:
    timed = problem.with_role(WorkloadRole.BENCHMARK)
    return ProposalRequest(
        problem, SIGNATURE, Graph(()), choose_device("sm_90a"),
        Candidate(problem.existing, Author.IMPORT, idea="as it is"),
        shapes=tuple(BenchmarkShape(workload, SIGNATURE) for workload in timed), bears=(Values.WIDE, Values.SPARSE),
    )  # fmt: skip


def questions(request: ProposalRequest) -> dict[str, str]:
    return {
        "testing": prompting.testing(request).text,
        "profiling": prompting.profiling(request).text,
        "planning": prompting.planning(request, "Bound by memory.").text,
        "coding": prompting.coding(request, "Idea: half2: two at once").text,
        "mending": prompting.mending(replace(request, base_trial=plain_failure())).text,
        "single": prompting.single(request).text,
    }


@pytest.mark.parametrize("problem", SERVING, ids=[problem.name for problem in SERVING])
def test_every_role_sees_the_reference_the_kernel_and_the_shapes(problem: Problem) -> None:
    for role, text in questions(request_for(problem)).items():
        assert problem.source.strip() in text, role
        assert problem.existing.strip() in text, role
        for workload in problem.with_role(WorkloadRole.BENCHMARK):
            assert f"- {workload.name} (" in text, role
        assert "\n\n\n" not in text.replace(problem.source.strip(), ""), role


def test_each_question_asks_for_its_own_form() -> None:
    asked = questions(request_for(SERVING[0]))
    assert "WORKLOADS = {" in asked["testing"].split("## Your answer")[1]
    assert "No code, no plan." in asked["profiling"]
    assert "Shapes: <the shapes it is for>" in asked["planning"]
    assert "<<<<<<< SEARCH" in asked["coding"]
    assert "<<<<<<< SEARCH" not in asked["planning"]
    assert "Idea: half2: two at once" in asked["coding"]
    assert "Bound by memory." in asked["planning"]
    assert "Cause: " in asked["mending"]
    assert {"Idea: ", "<<<<<<< SEARCH"} <= {word for word in ("Idea: ", "<<<<<<< SEARCH") if word in asked["single"]}


def test_the_example_of_a_suite_is_one_that_would_be_taken() -> None:
    for problem in SERVING:
        example = prompting.testing(request_for(problem)).text.split("## Your answer")[1]
        assert suite.with_suite(problem, example).workloads


def test_what_was_tried_is_told_shape_by_shape_and_the_person_is_heard() -> None:
    shapes = (ShapeTime("16 x 4096", 0.01, None, 0.8), ShapeTime("64 x 8192", 0.02, None, 1.5))
    tried = Attempt(2, "half2: two at once", "k", Status.PASSED, "regressed on 16 x 4096", shapes=shapes)
    request = replace(
        request_for(SERVING[0]), attempts=(tried,), standing="no inline PTX", instruction="think of the tails"
    )
    asked = questions(request)
    for role in ("testing", "profiling", "planning", "coding", "single"):
        assert (
            "- step 2: half2: two at once -> regressed on 16 x 4096; 16 x 4096 0.01 ms (0.80x the best" in asked[role]
        )
        assert "no inline PTX" in asked[role]
        assert "think of the tails" in asked[role]


def test_locked_regions_are_named_to_those_who_write_code() -> None:
    locked = "int const kept = 1;\n"
    source = f"{SERVING[0].existing}// cutegen: lock\n{locked}// cutegen: unlock\n"
    asked = questions(replace(request_for(SERVING[0]), base=Candidate(source, Author.MODEL, idea="x")))
    for role in ("coding", "mending", "single"):
        assert (
            f"These regions are locked by the person; their text must stay exactly as it is:\n```cpp\n{locked}"
            in asked[role]
        )


def test_a_suite_that_was_not_trusted_comes_back_with_its_evidence() -> None:
    request = replace(request_for(SERVING[0]), suites=(SuiteTried(2, "p", "r", False, "3 of 30 mutants pass it"),))
    assert "- 3 of 30 mutants pass it" in prompting.testing(request).text


def test_a_small_context_loses_the_oldest_attempts_and_says_so() -> None:
    attempts = tuple(Attempt(n, f"idea {n}: " + "word " * 200, "k", Status.PASSED, "kept") for n in range(1, 9))
    request = replace(request_for(SERVING[0]), attempts=attempts)
    whole = prompting.planning(request, "x")
    less = prompting.planning(replace(request, context_tokens=whole.tokens - 300), "x")
    assert less.tokens <= whole.tokens - 300
    assert "step 1 of what was tried" in less.left_out


def test_a_question_is_asked_again_only_where_the_context_has_room_for_it() -> None:
    request = request_for(SERVING[0])
    prompt = prompting.planning(request, "x")
    again = rounds.refusing(prompt, "it names no idea", request)
    assert again is not None
    assert again.text.endswith("Your answer was refused: it names no idea. Answer again.\n")
    assert rounds.refusing(prompt, "it names no idea", replace(request, context_tokens=again.tokens)) == again
    assert rounds.refusing(prompt, "it names no idea", replace(request, context_tokens=again.tokens - 1)) is None


@pytest.mark.parametrize(
    "strategy", [SingleAgentStrategy(AnsweredBy.LLM), AstraStrategy(dict.fromkeys(ROLES, AnsweredBy.LLM))]
)
def test_no_strategy_asks_again_beyond_the_context(strategy: SingleAgentStrategy | AstraStrategy) -> None:
    request = replace(request_for(SERVING[0]), base_trial=plain_failure())
    prompt = prompting.mending(request)
    role = Role.PROPOSER if isinstance(strategy, SingleAgentStrategy) else Role.CODING
    asked = replace(request, calls=(Call(role, prompt.text, "no kernel"),))
    assert isinstance(strategy.respond(asked), Ask)
    assert isinstance(strategy.respond(replace(asked, context_tokens=prompt.tokens + 1)), Unparsed)
