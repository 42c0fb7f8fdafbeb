"""Every prompt for every workload class, read the way a model reads it; and everything the prompts promise."""

import re
from dataclasses import replace

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import choose_device
from cutegen_core.problems.library import load
from cutegen_core.propose.cutegen import prompting
from cutegen_core.propose.cutegen.menus import open_items, profile_reason
from cutegen_core.propose.cutegen.strategy import CutegenStrategy
from cutegen_core.propose.cutegen.switches import ABLATIONS, uses_cute
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.families.family import menu, registered
from cutegen_core.propose.port import (
    Ask,
    Attempt,
    BenchmarkShape,
    Call,
    Finished,
    Proposal,
    ProposalRequest,
    Unparsed,
    WantsStudy,
)  # fmt: skip
from cutegen_core.propose.prompting import rendering
from cutegen_core.propose.prompting.offers import offered
from cutegen_core.propose.prompting.rendering import PLAIN_EXAMPLE
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.decision import Effort, Ideas, StudyKind
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.records.performance import (
    Bound,
    Conditions,
    KernelEstimate,
    KernelProfile,
    Metric,
    Peaks,
    Performance,
    Profile,
    Speedup,
    Timing,
    Word,
    WorkloadPerformance,
)
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import (
    Correctness,
    Diagnostic,
    ExecutorKind,
    KernelResources,
    Occupancy,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)
from tests.few_runs import few_runs
from tests.places import DATA
from tests.problems.kernelbench_files import GOOD
from tests.session.real_sessions import loop

FAMILIES = {family.name: family for family in registered().families}
EXAMPLE = rendering.EXAMPLE.read_text()
SCATTER = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, index, values):
        return torch.scatter_add(x, 0, index, values)

def get_inputs():
    return [torch.rand(64, 8), torch.randint(0, 64, (32, 8)), torch.rand(32, 8)]

def get_init_inputs():
    return []
"""
POOL = SCATTER.replace("x, index, values):\n        return torch.scatter_add(x, 0, index, values)",
                       "x):\n        return torch.nn.functional.max_pool2d(x, 2)").replace(
    "torch.rand(64, 8), torch.randint(0, 64, (32, 8)), torch.rand(32, 8)", "torch.rand(1, 3, 16, 16)")  # fmt: skip
SDPA = SCATTER.replace("x, index, values):\n        return torch.scatter_add(x, 0, index, values)",
                       "q, k, v):\n        return torch.nn.functional.scaled_dot_product_attention(q, k, v)").replace(
    "torch.rand(64, 8), torch.randint(0, 64, (32, 8)), torch.rand(32, 8)",
    "torch.rand(1, 2, 16, 8), torch.rand(1, 2, 16, 8), torch.rand(1, 2, 16, 8)")  # fmt: skip
WRITTEN = {"scatter": SCATTER, "pool": POOL, "attention": SDPA}

CLASSES = {
    "relu": "elementwise",
    "gelu": "elementwise",
    "swish": "elementwise",
    "softsign": "elementwise",
    "silu_and_mul": "elementwise",
    "tanh": "elementwise",
    "softmax": "softmax and attention",
    "logsoftmax": "softmax and attention",
    "layernorm": "reduction",
    "rmsnorm": "reduction",
    "add_rmsnorm": "reduction",
    "fused_add_rmsnorm": "reduction",
    "merge_attn_states_lse": "elementwise",
    "sum_reduction": "reduction",
    "mean_reduction": "reduction",
    "max_reduction": "reduction",
    "matmul_square": "gemm",
    "matmul_transposed_a": "gemm",
    "matmul_both_transposed": "gemm",
    "batched_matmul": "gemm",
    "matvec": "gemm",
    "matmul_bias_relu": "gemm",
    "conv_bias_relu": "convolution and pooling",
    "cumsum": "scan",
}


def written(name, source):
    return Problem(name, name, source, f"{name}.py", (Workload("small", WorkloadRole.EMULATOR),))


def _named(fragment):
    """Return the KernelBench-like file whose text holds the fragment."""
    return next(written(name, source) for name, source in GOOD.items() if fragment in source)


OTHERS = {
    "cumsum": (lambda: _named("torch.cumsum"), "scan"),
    "embedding": (lambda: _named("nn.Embedding"), "gather and segment"),
    "scatter": (lambda: written("scatter", SCATTER), "gather and segment"),
    "conv": (lambda: _named("return self.conv(x)"), "convolution and pooling"),
    "conv_relu_bias": (lambda: _named("torch.relu(self.conv(x)) + self.bias"), "convolution and pooling"),
    "pool": (lambda: written("pool", POOL), "convolution and pooling"),
    "attention": (lambda: written("attention", SDPA), "softmax and attention"),
    "chain": (lambda: _named("torch.clamp(self.act(self.gemm(x)"), "gemm"),
    "einsum": (lambda: _named("torch.einsum('bijl,lk->bijk'"), "gemm"),
    "untraceable": (lambda: _named("if x.sum().item() > 0"), "other"),
}


@pytest.fixture(scope="module")
def request_for(shared):
    """A request to propose the first kernel of a problem; nothing is made up but what the caller changes."""
    known = {}

    def get(name):
        if name not in known:
            problem = OTHERS[name][0]() if name in OTHERS else load(name)
            workload = (problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads)[-1]
            reference = shared.reference(problem)
            signature, graph = reference.signature(workload), reference.graph(workload)
            known[name] = ProposalRequest(problem, signature, graph, choose_device("sm_90a"), None)
        return known[name]

    return get


@pytest.mark.parametrize("name", [*CLASSES, *OTHERS])
def test_the_class_is_found_from_the_graph(request_for, name):
    assert classify(request_for(name).graph).name == (CLASSES.get(name) or OTHERS[name][1])


# ---- rendering


SPENT = KernelResources("scale<256>", "void scale<256>(float const*, float*, long)", 32, 8, 8, 0, 1024, {"FFMA": 12})
RESOURCES = Resources(
    "sm_90a", (SPENT,), (Occupancy("small", "scale<256>", (8, 1, 1), (256, 1, 1), 0, 8, 1.0, 0.1, "threads"),)
)
FAILED = StageResult(Stage.COMPILE, StageStatus.FAILED, 0.1)


def passed_trial():
    verdict = WorkloadVerdict("small", "checked", 1, Status.PASSED, 0.1)
    return Trial(
        "a" * 64,
        Status.PASSED,
        (),
        ExecutorKind.CPU,
        resources=RESOURCES,
        correctness=Correctness(ExecutorKind.CPU, (verdict,)),
    )


def compile_failure():
    diagnostic = Diagnostic(22, "error", 'identifier "n" is undefined', "nvrtc", ("in the call of scale",))
    return Trial(
        "a" * 64, Status.COMPILE_ERROR, (FAILED,), ExecutorKind.CPU, 'identifier "n" is undefined', (diagnostic,)
    )


def plain_failure():
    """Return a verdict of the PATCH stage that carries nothing but its message."""
    stage = StageResult(Stage.PATCH, StageStatus.FAILED, 0.1)
    return Trial("a" * 64, Status.PATCH_FAILED, (stage,), ExecutorKind.CPU, "grid is 0")


def attempts(items):
    first = Attempt(1, "seed", "a" * 64, Status.PASSED, "promoted", promoted=True)
    second = Attempt(2, f"{items[0].key}: better", "b" * 64, Status.TIMEOUT, "failed: 10 s are over")
    third = Attempt(3, "", "", None, "redirected: use tiles")
    return (first, second, third)


def prompts(request):
    """Return every prompt there is for a problem, in its plainest and its fullest form."""
    items = menu(classify(request.graph), request.device.arch)
    base = Candidate(EXAMPLE, Author.MODEL, None, "seed")
    with_base = {"base": base, "base_trial": passed_trial()}
    failing = {"base": base, "base_trial": compile_failure()}
    full = {"attempts": attempts(items), "standing": "No shared memory.", "context_tokens": 100_000}
    locked = EXAMPLE.replace("  if (i < n)", "  // cutegen: lock\n  if (i < n)")
    locked = locked.replace("in(i);\n", "in(i);\n  // cutegen: unlock\n")
    made = {
        "seed": prompting.seed(request),
        "seed again": prompting.seed(replace(request, **full, failure=plain_failure())),
        "optimise": prompting.optimise(replace(request, **with_base)),
        "optimise in full": prompting.optimise(
            replace(
                request,
                **full,
                base=Candidate(locked, Author.MODEL),
                base_trial=passed_trial(),
                instruction="Profile it.",
            )
        ),
        "diagnose": prompting.diagnose(replace(request, **failing)),
        "diagnose in full": prompting.diagnose(replace(request, **full, base=base, base_trial=plain_failure())),
        "repair": prompting.repair(replace(request, **failing), "Cause: n"),
        "repair without a diagnosis": prompting.repair(
            replace(request, **full, base=base, base_trial=compile_failure()), ""
        ),
    }
    return {name: prompt.text for name, prompt in made.items()}


@pytest.mark.parametrize("name", ["silu_and_mul", "softmax", "layernorm", "matmul_bias_relu", *OTHERS])
def test_no_prompt_has_leftovers(request_for, name):
    request = request_for(name)
    for kind, text in prompts(request).items():
        where = f"{kind} of {name}"
        said = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"\{\{|\}\}|\{%|%\}|\{#|#\}|Undefined", said), where
        assert not re.findall(r"(?:^|[\s\"'(=`])/(?:home|work|tmp|usr|root|var|opt)/\S*", text), where
        outside = text.replace(request.problem.source.strip(), "").replace("dtype=None", "")
        assert not re.findall(r"\bNone\b|<\w+\.\w+ object|\bnan\b", _prose(outside)), where
        assert not re.search(r"^## [^\n]*\n+(?=## |\Z)", text, re.MULTILINE), f"empty section in {where}"
        assert "\n\n\n\n" not in said, where
        headings = re.findall(r"^## .*$", text, re.MULTILINE)
        assert len(headings) == len(set(headings)), where
        assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0, where


def _prose(text):
    """Return the prompt without what is the reference's own: operands of the traced operations may well be None."""
    return "\n".join(line for line in text.split("\n") if not re.match(r"- \w+ = \w+\(", line))


@pytest.mark.parametrize("name", ["relu", "chain", "untraceable"])
def test_each_prompt_asks_for_one_form_of_answer(request_for, name):
    for kind, text in prompts(request_for(name)).items():
        assert len(re.findall(r"^## Your answer$", text, re.MULTILINE)) == 1, kind
        blocks, whole = "<<<<<<< SEARCH" in text, "the whole kernel file in one ```cpp block" in text
        assert blocks is kind.startswith(("optimise", "repair")), kind
        assert whole is not kind.startswith("diagnose"), kind
        assert ("Idea: <name>" in text) is not kind.startswith("diagnose"), kind
        assert ("Cause: <the one" in text) is kind.startswith("diagnose"), kind
        assert "JSON" not in text.replace(request_for(name).problem.source, ""), kind


def test_each_prompt_says_what_the_loop_promises(request_for):
    request = request_for("matmul_bias_relu")
    made = prompts(request)
    for kind, text in made.items():
        assert request.problem.source.strip() in text, kind
        assert all(
            f"`{tensor.name}`: {tensor.dtype} {list(tensor.shape)}" in text for tensor in request.signature.tensors
        )
        assert all(f"- {workload.name} (" in text for workload in request.problem.workloads), kind
        assert f"{request.device.sm_count} SMs" in text, kind
        assert "## The kernel file" in text, kind
    assert "No shared memory." in made["optimise in full"]
    assert "step 2: skinny: better -> failed: 10 s are over" in made["optimise in full"]
    assert "locked by the person" in made["optimise in full"]
    assert "grid is 0" in made["seed again"]
    assert "line 22" in made["repair"]
    assert "Cause: n" in made["repair"]
    assert "## Diagnosis" not in made["repair without a diagnosis"]


def test_the_minimal_file_and_the_exemplar_are_shown_until_a_kernel_has_passed(request_for):
    request = request_for("matmul_bias_relu")
    exemplar = FAMILIES["gemm"].exemplar.strip()
    first = prompting.seed(request).text
    assert EXAMPLE.strip() in first
    assert exemplar in first
    base = Candidate("/* cutegen */ int x;", Author.MODEL)
    failing = prompting.repair(replace(request, base=base, base_trial=compile_failure()), "").text
    assert exemplar in failing
    later = prompting.optimise(replace(request, base=base, base_trial=passed_trial())).text
    assert "## A minimal valid kernel file" not in later
    assert exemplar not in later
    again = replace(request, base=base, base_trial=compile_failure(), attempts=tried("seed"))
    assert exemplar not in prompting.repair(again, "").text


def test_what_does_not_change_is_one_prefix_of_every_prompt(request_for):
    made = list(prompts(request_for("matmul_bias_relu")).items())
    begin = made[0][1].split("## A minimal valid kernel file")[0]
    assert len(begin) > 6000
    for kind, text in made:
        assert text.startswith(begin[: begin.rindex("- The same code")]), kind


def test_the_facts_are_told(request_for):
    text = prompting.seed(request_for("matmul_square")).text
    assert "137 GFLOP on fp32 2.054 ms" in text
    assert "No algorithm takes less than 364" in text
    assert "Peaks, nominal, of the data sheet: memory 3.35 TB/s" in text
    assert re.search(r"with CUTLASS \d+\.\d+", text)
    assert "every launch of the plan must apply to one" in text
    gpu = replace(request_for("matmul_square"), executor=ExecutorKind.GPU)
    assert "run and timed on the GPU" in prompting.seed(gpu).text


def test_a_seed_prompt_takes_at_most_5000_tokens(request_for):
    for name in ("layernorm", "matmul_square", "conv", "attention", "chain"):
        assert prompting.seed(request_for(name)).tokens <= 5000, name


def test_code_stands_in_the_prompt_to_the_letter(request_for):
    """A SEARCH text is copied from the prompt and must occur in the kernel."""
    spaced = EXAMPLE.replace("using namespace cute;\n", "using namespace cute;\n\n\n\n")
    request = replace(request_for("relu"), base=Candidate(spaced, Author.MODEL), base_trial=passed_trial())
    assert spaced.strip() in prompting.optimise(request).text


def test_a_chain_is_analysed_before_anything_is_written(request_for):
    text = prompts(request_for("chain"))["optimise"]
    assert "class: gemm" in text
    assert "fusable into their reader" in text
    first = re.search(r"^- ([a-z0-9-]+) \(structure\)", text.split("## This step")[1], re.MULTILINE)
    assert first[1] == "fuse-epilogue"


# ---- what the prompts promise is so


def test_the_minimal_example_is_a_valid_kernel_file():
    kernel = parse(EXAMPLE)
    assert kernel.kernel_names() == ("scale<BLOCK>",)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("exemplars")) as made:
        yield made


OWN_EXEMPLARS = {name: family for name, family in FAMILIES.items() if family.exemplar_solves}


def test_the_families_that_always_had_an_exemplar_have_it():
    solved = {name: family.exemplar_solves for name, family in OWN_EXEMPLARS.items()}
    assert solved.items() >= {
        ("elementwise", "silu_and_mul"), ("reduction", "layernorm"), ("softmax and attention", "softmax"),
        ("gemm", "matmul_bias_relu"), ("convolution and pooling", "conv_bias_relu"), ("scan", "cumsum"),
    }  # fmt: skip
    assert FAMILIES["fused chain"].exemplar == FAMILIES["gemm"].exemplar


@pytest.mark.parametrize(
    ("name", "briefly"),
    [
        ("softmax and attention", True),
        *(pytest.param(name, False, marks=pytest.mark.thorough) for name in OWN_EXEMPLARS),
    ],
)
def test_each_exemplar_compiles_and_passes_here(desk, request_for, name, briefly):
    problem, source = OWN_EXEMPLARS[name].exemplar_solves, OWN_EXEMPLARS[name].exemplar
    session = desk.start(few_runs(problem) if briefly else problem, answered_by=AnsweredBy.PERSON)
    settings = desk.store.events(session)[0].event.settings
    evaluator: Evaluator = desk.tools.evaluator(session, settings)
    trial = evaluator.evaluate(Candidate(source, Author.PLAYBOOK), seed=7)
    assert trial.passed, trial.message
    assert classify(request_for(problem).graph).name == name
    assert source.strip() in prompting.seed(request_for(problem)).text


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_class_has_a_menu_of_its_own(kind):
    items = menu(FAMILIES[kind], "sm_120a")
    keys = [item.key for item in items]
    assert len(items) >= 4
    assert len(keys) == len(set(keys))
    assert all(len(item.text) > 30 and item.kind in ("structure", "parameter") for item in items)
    assert [item.kind for item in items] == sorted((item.kind for item in items), reverse=True), "structure comes first"


def test_every_class_that_is_found_here_is_a_family():
    assert {*CLASSES.values(), *(kind for _, kind in OTHERS.values())} == {
        "elementwise", "reduction", "softmax and attention", "gemm", "convolution and pooling", "scan",
        "gather and segment", "other",
    } <= set(FAMILIES)  # fmt: skip


def test_a_menu_offers_what_the_architecture_has():
    keys = {arch: {item.key for item in menu(FAMILIES["gemm"], arch)} for arch in ("sm_70", "sm_80", "sm_90a")}
    assert keys["sm_90a"] - keys["sm_80"] == {"tma-wgmma"}
    assert keys["sm_80"] - keys["sm_70"] == {"cp-async", "tensor-core", "split-tf32"}


def offers(request):
    return [item.key for item in offered(request)]


@pytest.mark.parametrize(
    ("name", "has", "has_not"),
    [
        (
            "matmul_square",
            {"shared-tile", "split-tf32"},
            {"tensor-core", "tma-wgmma", "skinny", "split-k", "fuse-epilogue"},
        ),
        ("matmul_bias_relu", {"fuse-epilogue"}, {"algebra"}),
        ("matvec", {"skinny"}, {"shared-tile", "register-tile", "split-tf32"}),
        ("layernorm", {"row-per-block", "vectorise", "one-pass"}, {"inner-dimension", "split-row"}),
        ("sum_reduction", {"inner-dimension"}, {"row-per-block"}),
        ("softmax", {"online-softmax"}, {"tile-kv", "split-tf32"}),
        ("attention", {"tile-kv", "split-tf32"}, {"online-softmax", "tensor-core"}),
        ("relu", {"vectorise"}, {"fuse", "cheaper-math"}),
        ("gelu", {"cheaper-math"}, set()),
        ("conv", {"implicit-gemm", "split-tf32"}, {"tensor-core"}),
        ("gather_rows", {"row-per-warp"}, {"fuse"}),
        ("pool", {"input-halo"}, {"implicit-gemm", "split-tf32"}),
    ],
)
def test_a_menu_offers_what_fits_the_problem(request_for, name, has, has_not):
    keys = set(offers(request_for(name)))
    assert has <= keys
    assert not has_not & keys


def test_tf32_that_is_allowed_makes_tensor_cores_an_item(request_for):
    request = request_for("matmul_square")
    allowed = replace(request, problem=replace(request.problem, allow=("tf32",)))
    assert "tensor-core" in offers(allowed)


def test_what_the_kernel_does_already_is_not_offered(request_for):
    code = "/* cutegen */ __shared__ float a[4]; float4 b; v = __shfl_xor_sync(~0u, v, 1);"
    base = Candidate(code, Author.MODEL)
    for name, done in (
        ("matmul_square", {"shared-tile", "vectorised-copies"}),
        ("layernorm", {"warp-shuffle", "vectorise"}),
    ):
        first, later = request_for(name), replace(request_for(name), base=base, base_trial=passed_trial())
        assert done <= set(offers(first))
        assert not done & set(offers(later)), name


def test_the_estimate_and_the_resources_stand_under_the_kernel_and_in_the_history(request_for):
    request = request_for("layernorm")
    shape = BenchmarkShape(request.problem.with_role(WorkloadRole.BENCHMARK)[0], request.signature)
    timed = replace(RESOURCES.occupancy[0], workload=shape.workload.name)
    other = replace(SPENT, kernel="for_short_rows<256>")
    spent = replace(RESOURCES, kernels=(SPENT, other), occupancy=(timed, replace(timed, workload="a small one")))
    trial = replace(passed_trial(), estimate=KernelEstimate(120.0, 120.0, 4.0, 80.0), resources=spent)
    step = replace(tried("seed: plain")[0], cost="estimate 120 µs, 32 registers, 1024 B shared")
    request = replace(
        request, base=Candidate(EXAMPLE, Author.MODEL), base_trial=trial, attempts=(step,), shapes=(shape,)
    )
    text = prompting.optimise(request).text
    assert "Passed, not measured; estimate 120 µs, 67 % of the bound (memory 120 µs, arithmetic 4 µs)" in text
    assert re.search(r"scale<256>: 32 registers, 16 B spilled, .*, 0.1 waves; SASS: FFMA 12", text)
    assert text.count("SASS") == 1, "the instructions of a kernel that no timed workload launches are no one's concern"
    assert "- step 1: seed: plain -> x; estimate 120 µs, 32 registers, 1024 B shared" in text


# ---- delayed profiling, context


def tried(*ideas, status=Status.PASSED):
    passed = status is Status.PASSED
    return tuple(Attempt(n, idea, str(n), status, "x", promoted=passed) for n, idea in enumerate(ideas, 1))


def test_profile_text_has_three_triggers_and_no_other():
    items = menu(FAMILIES["elementwise"], "sm_90a")
    structural = [item.key for item in items if item.kind == "structure"]

    def reason(attempts, instruction=""):
        return profile_reason(attempts, items, instruction, stalled_after=2)

    assert reason(()) == ""
    assert reason(tried("seed", structural[0])) == ""
    assert reason(tried("seed", *structural)) == "the structural ideas are done"
    rejected = Attempt(9, structural[-1], "9", None, "rejected: no", rejected=True)
    assert reason((*tried("seed", *structural[:-1]), rejected)) == "the structural ideas are done"
    stalled = (*tried("seed"), *tried("a", "b", status=Status.TIMEOUT))
    assert "brought nothing" in reason(stalled)
    slower = tuple(Attempt(n, "x", str(n), Status.PASSED, "passed, not promoted") for n in (2, 3))
    assert "brought nothing" in reason((*tried("seed"), *slower))
    assert reason((*tried("seed"), *tried("a", status=Status.TIMEOUT))) == ""
    assert reason((), "please profile first") == "the person asked for it"


def test_the_profile_is_in_the_prompt_only_then_and_has_units(request_for):
    request = replace(request_for("relu"), base=Candidate(EXAMPLE, Author.MODEL), base_trial=passed_trial())
    assert "## Profile" not in prompting.optimise(request).text
    text = prompting.optimise(replace(request, instruction="profile it")).text
    assert "## Profile of the current kernel (the person asked for it)" in text
    assert "32 registers a thread, 16 B spilled, 1024 B static shared memory" in text


def test_the_profiler_is_asked_once_and_only_when_its_answer_is_used(request_for):
    base = Candidate(EXAMPLE, Author.MODEL)
    request = replace(request_for("relu"), base=base, base_trial=passed_trial(), can_profile=True)
    ask = CutegenStrategy().respond
    assert isinstance(ask(request), Ask)
    wanted = ask(replace(request, instruction="profile it"))
    assert wanted == WantsStudy(StudyKind.PROFILE, "the person asked for it")
    slow = KernelProfile("scale<256>", (Metric("DRAM throughput", 41.5, "%"),), ("use wider loads",), ())
    profile = Profile("Nsight Compute 2025.3", "benchmark", (slow,))
    prompt = ask(replace(request, instruction="profile it", profile=profile)).prompt
    assert "DRAM throughput 41.5 %" in prompt
    assert "use wider loads" in prompt
    refused = ask(replace(request, instruction="profile it", profile_note="ncu may not read the counters")).prompt
    assert "ncu may not read the counters" in refused
    assert isinstance(ask(replace(request, instruction="profile it", can_profile=False)), Ask)


def test_measured_times_and_peaks_are_in_the_prompt(request_for):
    conditions = Conditions("H200", "580", (1980, 1980), 3201, (40, 41), (300.0, 310.0), (), 0, 8, 1 << 27, 0.0)
    own, eager = Timing("candidate", 42.0, 41.5, 42.6, 0.004, 60), Timing("eager", 84.0, 83.0, 85.0, 0.004, 60)
    speedup = Speedup("eager", 2.0, 1.98, 2.02, Word.FASTER)
    bound = Bound("graph", 1 << 20, 1 << 20, "fp32", 33.6, 1.0)
    timed = WorkloadPerformance("benchmark", (own, eager), (speedup,), (), 0.004, conditions, (bound,))
    trial = replace(passed_trial(), performance=Performance((timed,)))
    peaks = Peaks("H200", 4.3e12, 4.3e12, {"fp32": 51e12}, "a copy", 0.0)
    request = replace(request_for("relu"), base=Candidate(EXAMPLE, Author.MODEL), base_trial=trial, peaks=peaks)
    text = prompting.optimise(request).text
    assert "benchmark: 42 µs, A/A noise ±0.4 %, 60 samples; 80 % of the memory bound (33.6 µs for 1.05 MB)" in text
    assert "; 2.00x faster than eager (speedup 2.000x, 95 % interval 1.980 to 2.020)\n" in text
    assert "Peaks, measured on this GPU: memory 4.3 TB/s (read + written); TFLOP/s: fp32 51." in text


def measured_request(request, took, *bounds):
    """Return the request with a best kernel that took that many µs, beside these bounds."""
    conditions = Conditions("H200", "580", (1980, 1980), 3201, (40, 41), (300.0, 310.0), (), 0, 8, 1 << 27, 0.0)
    own = Timing("candidate", took, took, took, 0.004, 60)
    timed = WorkloadPerformance("benchmark", (own,), (), (), 0.004, conditions, bounds)
    trial = replace(passed_trial(), performance=Performance((timed,)))
    return replace(request, base=Candidate(EXAMPLE, Author.MODEL), base_trial=trial, executor=ExecutorKind.GPU)


def bound(kind, pipe, memory, compute):
    return Bound(kind, 1 << 20, 1 << 20, pipe, memory, compute)


@pytest.mark.parametrize(
    ("bounds", "enough", "said"),
    [
        ((bound("graph", "fp32", 40.0, 1.0),), 0.92, "95 % of the memory bound"),
        ((bound("graph", "fp32", 33.6, 1.0),), 0.92, ""),
        ((bound("graph", "fp32", 33.6, 1.0),), 0.75, "80 % of the memory bound"),
        ((bound("graph", "fp32", 40.0, 1.0),), 0.0, ""),
        ((bound("graph", "bf16", 1.0, 40.0),), 0.92, "95 % of the compute bound"),
        ((bound("graph", "bf16", 1.0, 33.6),), 0.92, ""),
        ((bound("graph", "fp32", 1.0, 40.0),), 0.92, ""),
        ((bound("graph", "fp32", 1.0, 40.0), bound("compulsory", "tf32", 1.0, 12.0)), 0.92, ""),
        (
            (bound("graph", "fp32", 1.0, 40.0), bound("compulsory", "fp32", 1.0, 39.0)),
            0.92,
            "95 % of the compute bound",
        ),
    ],
)
def test_a_session_ends_where_the_measured_time_is_near_a_bound_that_no_other_pipe_beats(
    request_for, bounds, enough, said
):
    request = replace(measured_request(request_for("relu"), 42.0, *bounds), effort=Effort(enough=enough))
    answer = CutegenStrategy().respond(request)
    assert isinstance(answer, WantsStudy) is bool(said), "the sweep comes before the end"
    if said:
        assert said in answer.reason
        swept = CutegenStrategy().respond(replace(request, swept=True))
        assert isinstance(swept, Finished)
        assert said in swept.reason
    assert isinstance(CutegenStrategy().respond(replace(request, instruction="go on")), Ask)


def paid(step, tokens, us=None, money=None):
    """A step that took these tokens; with a time it was promoted."""
    return Attempt(
        step, f"idea {step}", str(step), Status.PASSED, "", us is not None, us=us, tokens=tokens, money=money
    )


# The seed is not counted; then 40 -> 20 µs takes 20 of 30 µs of headroom, and another step takes nothing:
# share (1 + 2/3 + 0) / 3, headroom 1 - 10 / 20, gain 27.8 %, price 400 tokens or 0.04.
PAID = (paid(1, 9000, 40.0), paid(2, 300, 20.0, 0.03), paid(3, 500, money=0.05))


BEATABLE = (bound("graph", "fp32", 1.0, 19.0), bound("compulsory", "tf32", 1.0, 10.0))


@pytest.mark.parametrize(
    ("worth", "attempts", "bounds", "said"),
    [
        ({"tokens_per_percent": 15}, PAID, (bound("graph", "bf16", 10.0, 1.0),), ""),
        ({"tokens_per_percent": 14}, PAID, (bound("graph", "bf16", 10.0, 1.0),),
         "28 % for 400 tokens, and 1 % is worth 14: 50 % of the best's time of 20 µs lie above its bound of 10 µs, "
         "and 2 steps let expect 56 % of that"),
        ({"cost_per_percent": 0.0015}, PAID, (bound("graph", "bf16", 10.0, 1.0),), ""),
        ({"cost_per_percent": 0.0014}, PAID, (bound("graph", "bf16", 10.0, 1.0),),
         "28 % for 0.04 in money, and 1 % is worth 0.0014:"),
        ({"tokens_per_percent": 0.1}, PAID[:1], (bound("graph", "bf16", 10.0, 1.0),), ""),
        ({"tokens_per_percent": 0.1}, PAID, (), ""),
        ({}, PAID, (bound("graph", "bf16", 19.9, 1.0),), ""),
        ({"tokens_per_percent": 1e9}, PAID, (bound("graph", "bf16", 20.0, 1.0),), "expected to bring 0 %"),
        ({"tokens_per_percent": 15}, PAID, BEATABLE, ""),
        ({"tokens_per_percent": 14}, PAID, BEATABLE,
         "lie above its bound of 10 µs"),
    ],
)  # fmt: skip
def test_a_session_ends_where_the_next_step_is_expected_to_cost_more_than_it_brings(
    request_for, worth, attempts, bounds, said
):
    request = measured_request(request_for("relu"), 20.0, *bounds)
    request = replace(request, effort=Effort(enough=0, **worth), attempts=attempts, swept=True)
    answer = CutegenStrategy().respond(request)
    assert isinstance(answer, Finished if said else Ask), answer
    assert not said or said in answer.reason
    assert isinstance(CutegenStrategy().respond(replace(request, instruction="go on")), Ask)


@pytest.mark.parametrize(
    ("ideas", "title", "how_many", "first"),
    [
        (Ideas.ONE, "## This step: one idea", "with exactly one idea.", "Write the simplest correct"),
        (Ideas.FEW, "## This step: a few ideas", "with up to three ideas", "Write the simplest correct"),
        (Ideas.FREE, "## This step: as many ideas as pay", "with as many ideas", "Write the fastest correct"),
    ],
)
def test_the_prompt_tells_how_many_ideas_a_step_may_try(request_for, ideas, title, how_many, first):
    request = replace(request_for("softmax"), effort=Effort(ideas))
    assert first in prompting.seed(request).text
    later = prompting.optimise(
        replace(request, base=Candidate(EXAMPLE, Author.MODEL), base_trial=passed_trial(), attempts=tried("seed"))
    ).text
    assert title in later
    assert how_many in later
    assert ("the one that matters most first" in later) is (ideas is not Ideas.ONE)


def test_what_does_not_fit_is_left_out_and_named(request_for):
    request = replace(
        request_for("softmax"), base=Candidate(EXAMPLE, Author.MODEL), base_trial=passed_trial(),
        attempts=tried("seed", *(f"idea {n} " + "very long " * 30 for n in range(20))),
    )  # fmt: skip
    everything = prompting.optimise(request)
    assert everything.left_out == ()
    first = prompting.seed(request_for("softmax"))
    no_exemplar = prompting.seed(replace(request_for("softmax"), context_tokens=first.tokens - 1))
    assert no_exemplar.left_out == ("a verified kernel of the same class",)
    assert "## A verified kernel" not in no_exemplar.text
    fewer = prompting.optimise(replace(request, context_tokens=everything.tokens - 200))
    assert fewer.left_out[:2] == ("step 1 of what was tried", "step 2 of what was tried")
    assert "- step 1:" not in fewer.text
    assert "- step 21:" in fewer.text
    assert open_items(request.attempts, menu(FAMILIES["softmax and attention"], "sm_90a"))[0].key in fewer.text
    hopeless = prompting.optimise(replace(request, context_tokens=10))
    assert "nothing more can be left out" in hopeless.left_out[-1]


# ---- variants of the strategy, for ablations


def asked(key, request):
    return CutegenStrategy(ABLATIONS[key].switches).respond(request)


def going_on(request_for, name="layernorm"):
    base = Candidate("/* cutegen */ int x;", Author.MODEL, idea="plain")
    return replace(request_for(name), base=base, base_trial=passed_trial(), attempts=tried("plain"))


def replied(request, role, reply):
    return replace(request, calls=(Call(role, "prompt", reply),))


def test_without_menus_no_idea_is_offered_and_no_menu_ends_the_session(request_for):
    request = going_on(request_for)
    items = offered(request)
    whole, bare = CutegenStrategy().respond(request), asked("cutegen-no-menus", request)
    assert all(f"- {item.key} (" in whole.prompt for item in items)
    assert not any(item.text in bare.prompt for item in items)
    assert "Give it a name of your own" in bare.prompt
    done = replace(request, attempts=tried("plain", *(item.key for item in items)))
    assert isinstance(CutegenStrategy().respond(done), Finished), "it declares nothing to sweep"
    tunable = replace(done, base=replace(done.base, source=(DATA / "relu.cu").read_text()))
    assert isinstance(CutegenStrategy().respond(tunable), WantsStudy)
    assert isinstance(asked("cutegen-no-menus", done), Ask)
    again = asked("cutegen-no-menus", replied(request, Role.PROPOSER, f"Idea: plain: again\n```cpp\n{EXAMPLE}```\n"))
    assert "the idea 'plain' was tried before" in again.prompt


def test_a_profile_is_in_no_step_or_in_each(request_for):
    request = replace(going_on(request_for), can_profile=True)
    assert isinstance(CutegenStrategy().respond(request), Ask), "structure is still moving"
    study = asked("cutegen-profile-always", request)
    assert (study.study, study.reason) == (StudyKind.PROFILE, "in each step")
    stalled = replace(request, attempts=tried("a", "b", "c", status=Status.TIMEOUT), instruction="profile it")
    assert isinstance(CutegenStrategy().respond(stalled), WantsStudy)
    assert isinstance(asked("cutegen-no-profile", stalled), Ask)


def test_plain_cuda_is_asked_for_shown_and_insisted_on(request_for):
    request = request_for("matmul_bias_relu")
    first = asked("cutegen-cuda", request).prompt
    assert "one plain CUDA C++ kernel" in first
    assert "#include <cute/tensor.hpp>" not in first
    assert FAMILIES["gemm"].exemplar.strip() not in first
    assert PLAIN_EXAMPLE.read_text().strip() in first
    refused = asked("cutegen-cuda", replied(request, Role.PROPOSER, f"Idea: plain: x\n```cpp\n{EXAMPLE}```\n"))
    assert "it uses CuTe or CUTLASS" in refused.prompt
    plain = PLAIN_EXAMPLE.read_text().replace("template", "// not cute::copy\ntemplate", 1)
    assert isinstance(
        asked("cutegen-cuda", replied(request, Role.PROPOSER, f"Idea: plain: x\n```cpp\n{plain}```\n")), Proposal
    )


@pytest.mark.parametrize("code", ["cute::copy(a, b);", "using namespace cute;", "#include <cutlass/half.h>"])
def test_what_is_no_plain_cuda_is_found_in_code_only(code):
    assert uses_cute(f"/* cutegen */\n{code}\n")
    assert not uses_cute(f"/* cutegen */\n// {code}\nint x;\n")


def test_one_shot_is_one_call_and_one_kernel_whatever_becomes_of_it(request_for):
    request = request_for("layernorm")
    only = asked("cutegen-one-shot", request)
    assert "## This step: the only one" in only.prompt
    assert all(f"- {item.key}: " in only.prompt for item in offered(request))
    assert isinstance(asked("cutegen-one-shot", replied(request, Role.PROPOSER, "no kernel")), Unparsed)
    assert isinstance(asked("cutegen-one-shot", going_on(request_for)), Finished)
    base = Candidate("/* cutegen */ int x;", Author.MODEL, idea="plain")
    failed = replace(going_on(request_for), base=base, base_trial=compile_failure())
    assert isinstance(asked("cutegen-one-shot", failed), Finished)
    assert CutegenStrategy(ABLATIONS["cutegen-one-shot"].switches).max_repairs == 0
