"""Exports run elsewhere as the kernel runs here: same state, plan and trajectory, and nothing hostile gets out."""

import gzip
import json
import random
import shutil
import subprocess
import zipfile
from dataclasses import replace

import pytest

from cutegen_core.judge import problem_source
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.expressions import ExpressionError, Scope, parse_expression
from cutegen_core.machine import toolchain
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library, read
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import (
    AnsweredBy,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Role,
    SessionCreated,
    SessionSettings,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    Tried,
)
from cutegen_core.records.launch import TensorArgument
from cutegen_core.records.problem import Problem, TensorSpec
from cutegen_core.records.trial import (
    ExecutorKind,
    KernelResources,
    Resources,
    Status,
    Trial,
)
from cutegen_core.share.exports import FORMATS, bundle, export, nvcc
from cutegen_core.share.exports.cu import cu_file
from cutegen_core.share.exports.extension import project, write
from cutegen_core.share.exports.flashinfer import solution
from cutegen_core.share.exports.modelnew import cuda_source, modelnew_file
from cutegen_core.share.exports.reference_module import renamed
from cutegen_core.share.exports.translate import HELPERS_CPP, to_cpp
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.places import DATA
from tests.trials import passed_trial

torch = Later("torch")

DEVICE = KNOWN["sm_90a"]
needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc here")
HOSTILE = "</pre><script src='https://evil.example/x.js'></script><img src=x onerror=alert(1)> ${7*7} {{ 7*7 }} \u202e"

TYPES = {
    "relu": ["void relu<256>(float const*, float*, long)"],
    "rmsnorm": [
        "void sum_squares<128>(float const*, float*, int)",
        "void scale<128, false>(float const*, float const*, float const*, float*, int, float)",
        "void scale<128, true>(float const*, float const*, float const*, float*, int, float)",
    ],
}
KERNELS = {"relu": "relu.cu", "rmsnorm": "rmsnorm_two_pass.cu"}


@pytest.fixture(scope="module", params=["relu", "rmsnorm"])
def case(request, shared):
    """A bundle, and the contract of every small workload."""
    problem = library.load(request.param)
    text = (DATA / KERNELS[request.param]).read_text()
    names = kernel_file.parse(text).kernel_names()
    resources = tuple(KernelResources(n, s, 32, 0, 0, 0, 0) for n, s in zip(names, TYPES[request.param], strict=True))
    reference = shared.reference(problem)
    signatures = {w.name: reference.signature(w) for w in problem.workloads}
    made = bundle.build(problem, text, "sm_90a", "c" * 64, "a test", kernels=resources, signatures=signatures)
    return made, signatures


def loaded(text):
    """Return what KernelBench does with a candidate: compile, exec in a namespace, take ModelNew."""
    namespace = {}
    exec(compile(text, "<string>", "exec"), namespace)
    return namespace


def test_only_the_workbenchs_own_literals_are_left_out_of_an_exported_reference():
    """Also after a form feed and a line separator, which end no line of Python."""
    source = library.load("relu").source.replace(
        "class Model", '# one\u2028two\nEDITED_FROM = "relu"\nCOMPULSORY = {"bytes": 8}\n\x0c\nclass Model'
    )
    problem = read.read(source + "\nkept = 3  # Model\n", "mine", "mine.py")
    text = renamed(problem, "Reference")
    context = loaded(text)
    assert {"Reference", "get_inputs", "kept"} <= set(context)
    assert not {"Model", *problem_source.LITERALS} & set(context)
    assert "# one\u2028two\n" in text


def test_modelnew_loads_as_kernelbench_loads_it_and_has_the_state_of_model(case):
    made, _ = case
    context = loaded(made.problem.source)
    torch.manual_seed(42)
    model = context["Model"](*context["get_init_inputs"]())
    exec(compile(modelnew_file(made), "<string>", "exec"), context)  # KernelBench uses one namespace for both
    torch.manual_seed(42)
    new = context["ModelNew"](*context["get_init_inputs"]())
    want, got = model.state_dict(), new.state_dict()
    assert list(want) == list(got)
    assert all(torch.equal(want[name], got[name]) for name in want)


def test_modelnew_says_that_it_needs_a_gpu(case):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    made, _ = case
    context = loaded(modelnew_file(made))
    new = context["ModelNew"](*context["get_init_inputs"]())
    with pytest.raises(RuntimeError, match="needs a CUDA GPU"):
        new(torch.randn(3, context["get_init_inputs"]()[0] if made.name == "rmsnorm" else 5))


def test_modelnew_finds_output_shapes_without_running_the_reference(case):
    made, _ = case
    context = loaded(modelnew_file(made))
    new = context["ModelNew"](*((64, 1e-6) if made.name == "rmsnorm" else ()))
    outputs, leaves, _ = new._cutegen_outputs((torch.randn(7, 64),), {})
    assert [tuple(o.shape) for o in outputs] == [(7, 64)]
    assert leaves == [None]
    with pytest.raises(TypeError, match=r"made for x of torch\.float32, not torch\.float64"):
        new(torch.randn(7, 64, dtype=torch.float64))


def test_modelnew_hands_its_kernel_the_parts_of_a_complex_tensor(case):
    made, _ = case
    given = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert loaded(modelnew_file(made))["ModelNew"]._cutegen_real(given).tolist() == [[1, -2], [3, 4]]


def test_the_plan_in_python_is_the_plan_of_the_kernel_file(case):
    made, signatures = case
    context = loaded(modelnew_file(made))
    facts, names = context["cutegen_facts"], made.kernel.kernel_names()
    numbers = {"sm_count": DEVICE.sm_count, "smem_max": DEVICE.smem_max, "warp_size": 32, "arch": 90}
    for workload, signature in signatures.items():
        plan = made.kernel.plan(signature, DEVICE, workload=workload)
        tensors = {t.name: facts(t.shape, getattr(torch, t.dtype)) for t in signature.tensors}
        scratch, launches = context["cutegen_plan"](tensors, numbers | dict(signature.scalars))
        assert [(n, s.shape, s.zero) for n, s in scratch.items()] == [(s.name, s.shape, s.zero) for s in plan.scratch]
        assert len(launches) == len(plan.launches)
        for got, want in zip(launches, plan.launches, strict=True):
            assert names[got.kernel] == want.kernel
            assert (*got.grid, 1, 1)[:3] == want.grid
            assert (*got.block, 1, 1)[:3] == want.block
            assert got.smem == want.smem_bytes
            values = [a.name if isinstance(a, TensorArgument) else a.value for a in want.args]
            assert got.arguments == values


def test_numbers_of_the_module_are_read_again_at_run_time(case):
    made, _ = case
    if made.name != "rmsnorm":
        pytest.skip("relu has no numbers")
    context = loaded(modelnew_file(made))
    assert context["ModelNew"](64, 0.5)._cutegen_numbers(()) == {"eps": 0.5}


EXPRESSIONS = [
    "-7 // 2", "7 % -3", "-7 % 3", "2 ** 10", "ceil_div(-7, 2)", "round_up(13, 8)", "log2(1025)", "min(3, n, 2.5)",
    "max(n, -1)", "(n > 3) + (n > 100)", "n > 3 and 7", "0 or n", "not n", "1 if n < 5 else 2.5", "7.5 // 2",
    "-7.5 % 2", "1 < n < 10", "x.numel + x.shape[-1] * x.stride[0] + x.itemsize", "(n == 5) * 3 - (n != 5)",
    "65536 * 65536", "2 if n > 1 and not n > 9 or n == 0 else 3", "x.shape[n - 5]", "1e-6 * n", "n // 0.5",
]  # fmt: skip


def random_expression(draw, depth=3):
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(["n", "m", "x.numel", "x.shape[1]", str(draw.randint(-9, 99)), f"{draw.randint(1, 99) / 4}"])
    inner = [random_expression(draw, depth - 1) for _ in range(3)]
    forms = ["({} + {})", "({} - {})", "({} * {})", "({} // {})", "({} % {})", "min({}, {}, {})", "max({}, {})",
             "({} < {})", "({} >= {} or {})", "({} and {})", "({} if {} > {} else 1)", "ceil_div({}, {})",
             "(not {})"]  # fmt: skip
    return draw.choice(forms).format(*inner)


@pytest.mark.slow
def test_expressions_in_cpp_and_python_mean_the_same(tmp_path):
    draw = random.Random(7)
    texts = EXPRESSIONS + [random_expression(draw) for _ in range(150)]
    scope = Scope({"x": TensorSpec("x", "float32", (6, 35))}, {"n": 5, "m": 3})
    wanted = []
    for text in texts:
        try:
            wanted.append((parse_expression(text), float(parse_expression(text).evaluate(scope))))
        except ExpressionError:
            continue
    assert len(wanted) > 100
    lines = "".join(f'  std::printf("%.17g\\n", double({to_cpp(e)}));\n' for e, _ in wanted)
    (tmp_path / "t.cpp").write_text(
        "#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <type_traits>\n"
        f"namespace cutegen {{\n{HELPERS_CPP}}}\n"
        "struct X { long numel() const { return 210; } long itemsize() const { return 4; }\n"
        "  long shape(long i) const { long s[] = {6, 35}; return s[i < 0 ? i + 2 : i]; }\n"
        "  long stride(long i) const { long s[] = {35, 1}; return s[i]; } };\n"
        f"int main() {{\n  X x; std::int64_t n = 5, m = 3; (void)m;\n{lines}}}\n"
    )
    own = shutil.which("c++")  # zig builds its C++ library first, which takes minutes
    compiler = [own] if own else [*toolchain.find_zig(), "c++"]
    subprocess.run([*compiler, "-std=c++17", "-w", "-o", "t", "t.cpp"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "t"], capture_output=True, text=True, check=True).stdout.split()
    for (expression, want), got in zip(wanted, printed, strict=True):
        assert float(got) == pytest.approx(want, rel=1e-12), expression.text


@needs_nvcc
@pytest.mark.slow
@pytest.mark.thorough
def test_the_cuda_source_of_modelnew_compiles(case):
    made, _ = case
    if made.name == "relu":
        pytest.skip("the other one has everything this one has")
    assert nvcc.check(cuda_source(made), "sm_90a").compiled


@needs_nvcc
@pytest.mark.slow
def test_what_nvcc_refuses_is_not_exported_silently(case):
    made, _ = case
    if made.name != "relu":
        pytest.skip("once is enough")
    with pytest.raises(UsageError, match="nvcc does not compile"):
        nvcc.check("#error this is no kernel\n", "sm_90a")


def test_the_standalone_file_opens_with_the_command_that_builds_it(case):
    made, _ = case
    text = cu_file(made)
    first = text.splitlines()[0]
    assert first.startswith("// nvcc -std=c++17 -O3 -arch=sm_90a")
    assert first.endswith(f"-o {made.name} {made.name}.cu")
    assert cu_file(made, "my kernel.cu").splitlines()[0].endswith(f"-o {made.name} 'my kernel.cu'")
    assert f"cudaError_t {made.name}_launch(" in text
    assert "int main()" in text


def test_the_extension_project_is_whole_as_folder_and_zip(case, tmp_path):
    made, _ = case
    files = project(made)
    write(files, tmp_path / "folder")
    assert {str(p.relative_to(tmp_path / "folder")) for p in (tmp_path / "folder").rglob("*") if p.is_file()} == set(
        files
    )
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")
    with pytest.raises(UsageError, match="exists already"):
        write(files, tmp_path / "folder")
    write(files, tmp_path / "project.zip")
    with zipfile.ZipFile(tmp_path / "project.zip") as archive:
        assert set(archive.namelist()) == {f"project/{path}" for path in files}


def test_the_solution_has_the_fields_of_flashinfer_bench(case):
    made, _ = case
    data = json.loads(solution(made))
    assert {"name", "definition", "author", "description", "spec", "sources"} == set(data)
    spec, paths = data["spec"], [source["path"] for source in data["sources"]]
    assert spec["language"] == "cuda"
    assert spec["binding"] == "torch"
    assert spec["destination_passing_style"] is True
    assert spec["entry_point"].split("::")[0] in paths
    assert len(set(paths)) == len(paths)
    assert all(source["content"] for source in data["sources"])


# ---- whole sessions


@pytest.fixture
def recorded(tmp_path):
    """A store with one accepted session of two steps, full of hostile texts."""
    store = Store(tmp_path / "store.db")
    problem = library.load("relu")
    source = (DATA / "relu.cu").read_text()
    key, bad = store.put(source), store.put(f"not a kernel {HOSTILE}")
    resources = Resources("sm_90a", (KernelResources("relu<BLOCK>", TYPES["relu"][0], 16, 0, 0, 0, 0),), (), sass="")
    trial = store.put_record(passed_trial(key, resources))
    failed = store.put_record(Trial(bad, Status.UNPARSED, (), ExecutorKind.CPU, message=HOSTILE, log=HOSTILE))
    settings = SessionSettings(
        store.put_record(problem), "relu", AnsweredBy.LLM, ExecutorKind.CPU, "sm_90a", "H100", title=HOSTILE
    )
    session = store.create_session(SessionCreated(settings))
    prompt, reply = store.put(f"prompt {HOSTILE}"), store.put(b"\xff\xfe binary".decode("latin1"))
    events = [
        StepStarted(1, None, HOSTILE),
        ModelCalled(1, Role.PROPOSER, prompt, "a-model"),
        ModelAnswered(1, Role.PROPOSER, prompt, reply),
        Proposed(1, bad, Author.MODEL, HOSTILE, HOSTILE),
        Tried(1, bad, failed, Status.UNPARSED, HOSTILE),
        StepClosed(1, Outcome.FAILED, HOSTILE),
        StepStarted(2, None),
        Proposed(2, key, Author.PERSON, "one thread per element"),
        Tried(2, key, trial, Status.PASSED, registers=16),
        StepClosed(2, Outcome.PROMOTED),
        StateChanged(SessionState.STOPPED, "stopped by the person"),
    ]
    store.append(session, events, after=1)
    yield store, session
    store.close()


def test_a_recording_holds_everything_and_comes_back_the_same(recorded, tmp_path):
    store, session = recorded
    for name in ("run.jsonl", "run.jsonl.gz"):
        assert export(store, session, "jsonl", tmp_path / name).checked == "n/a"
        elsewhere = Store(tmp_path / f"{name}.db")
        brought = import_path(elsewhere, tmp_path / name)
        assert brought.steps == 2
        was, now = store.events(session), elsewhere.events(brought.session)
        assert [(r.seq, r.at) for r in was] == [(r.seq, r.at) for r in now]
        assert [r.event for r in was[1:]] == [r.event for r in now[1:]]
        assert now[0].event.settings.origin == f"imported from {name}"
        for event in was:
            for key in [v for v in vars(event.event).values() if isinstance(v, str) and len(v) == 64]:
                assert elsewhere.get(key) == store.get(key)
        elsewhere.close()
    assert gzip.decompress((tmp_path / "run.jsonl.gz").read_bytes()) == (tmp_path / "run.jsonl").read_bytes()
    assert all(json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines())


def test_an_existing_kernel_travels_with_its_session(tmp_path):
    store, elsewhere = Store(tmp_path / "store.db"), Store(tmp_path / "elsewhere.db")
    problem = replace(library.load("relu"), existing=(DATA / "relu.cu").read_text())
    settings = SessionSettings(
        store.put_record(problem), "relu", AnsweredBy.LLM, ExecutorKind.CPU, "sm_90a", "H100"
    )  # fmt: skip
    session = store.create_session(SessionCreated(settings))
    export(store, session, "jsonl", tmp_path / "run.jsonl")
    brought = import_path(elsewhere, tmp_path / "run.jsonl").session
    found = elsewhere.record(Problem, elsewhere.events(brought)[0].event.settings.problem)
    assert (found.existing, found.key) == (problem.existing, problem.key)
    export(store, session, "html", tmp_path / "run.html")
    assert "existing kernel" in (tmp_path / "run.html").read_text()
    store.close()
    elsewhere.close()


def test_a_recording_of_a_recording_is_the_same_but_for_its_origin(recorded, tmp_path):
    store, session = recorded
    export(store, session, "jsonl", tmp_path / "a.jsonl")
    first = import_path(store, tmp_path / "a.jsonl").session
    export(store, first, "jsonl", tmp_path / "b.jsonl")
    a, b = ((tmp_path / n).read_text().splitlines()[1:] for n in ("a.jsonl", "b.jsonl"))
    assert [x.replace('"here"', '"imported from a.jsonl"') for x in a] == b


def test_the_report_is_self_contained_and_escapes_what_is_hostile(recorded, tmp_path):
    store, session = recorded
    export(store, session, "html", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "<script src" not in text
    assert "<img" not in text
    assert "&lt;script src=" in text
    assert "{{ 7*7 }}" in text
    markup = text.replace(HOSTILE.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;"), "")
    for reach in ("src=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest", "<iframe"):
        assert reach not in markup.replace("&lt;script src=", "").replace("&lt;img src=", "")
    assert "default-src 'none'" in text
    assert text.count('<section id="step-') == 2
    assert "ArrowRight" in text


def test_a_session_exports_to_every_kernel_format(recorded, tmp_path):
    store, session = recorded
    for name in FORMATS:
        done = export(store, session, name, tmp_path / f"out-{name}", check=False)
        assert done.path.exists()
        assert done.checked == ("not compiled here" if FORMATS[name].compiles else "n/a")
    assert "class ModelNew(CutegenReference)" in (tmp_path / "out-modelnew").read_text()


def test_exports_that_cannot_be_are_refused_with_the_reason(recorded, tmp_path):
    store, session = recorded
    with pytest.raises(UsageError, match="no export format 'pdf'"):
        export(store, session, "pdf", tmp_path / "x")
    with pytest.raises(UsageError, match="does not exist"):
        export(store, session, "html", tmp_path / "no" / "x")
    with pytest.raises(UsageError, match="it is a folder"):
        export(store, session, "cu", tmp_path)
    problem = store.put_record(library.load("relu"))
    empty = store.create_session(
        SessionCreated(SessionSettings(problem, "relu", AnsweredBy.PERSON, ExecutorKind.CPU, "sm_90a", "H100"))
    )
    with pytest.raises(UsageError, match="no kernel that passed"):
        export(store, empty, "cu", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_an_export_of_a_kernel_that_failed_its_acceptance_test_says_so(recorded, tmp_path):
    store, session = recorded
    key = state_of(store, session).best
    refused = Tried(2, key, "", Status.INCORRECT_NUMERICAL, "1 of 8 elements of out are wrong", acceptance=True)
    store.append(session, [refused, StateChanged(SessionState.AWAITING_REVIEW)], after=store.last_seq(session))
    with pytest.raises(UsageError, match="no kernel that passed"):
        export(store, session, "cu", tmp_path / "best.cu", check=False)
    export(store, session, "cu", tmp_path / "named.cu", candidate=key, check=False)
    text = (tmp_path / "named.cu").read_text()
    assert "WHICH FAILED ITS ACCEPTANCE TEST (1 of 8 elements of out are wrong)" in text


def test_a_recording_needs_no_cubin(recorded, tmp_path):
    store, session = recorded
    cubin = store.put(b"\x7fELF\xff")
    trial = passed_trial("d" * 64, Resources("sm_90a", (), (), cubin=cubin, sass=store.put("SASS text")))
    key = store.put(as_json.dump(trial))
    store.append(session, [Tried(2, "d" * 64, key, Status.PASSED)], after=store.last_seq(session))
    export(store, session, "jsonl", tmp_path / "run.jsonl")
    text = (tmp_path / "run.jsonl").read_text()
    assert "SASS text" in text
    assert f'"blob":"{cubin}"' not in text


@pytest.mark.gpu
@pytest.mark.slow
def test_modelnew_computes_what_model_computes(case):
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    made, _ = case
    context = loaded(made.problem.source)
    torch.manual_seed(42)
    model = context["Model"](*context["get_init_inputs"]()).cuda()
    exec(compile(modelnew_file(made), "<string>", "exec"), context)
    torch.manual_seed(42)
    new = context["ModelNew"](*context["get_init_inputs"]()).cuda()
    for rows in (1, 37):
        inputs = [x[:rows].cuda() for x in context["get_inputs"]()]
        with torch.no_grad():
            torch.testing.assert_close(new(*inputs), model(*inputs), atol=1e-4, rtol=1e-4)
