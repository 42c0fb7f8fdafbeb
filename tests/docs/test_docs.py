"""The pages on kernel files, problem files and words are true: what they show is read, resolved, refused for real."""

import re
from dataclasses import replace

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.evidence.proof import MARK_WORDS
from cutegen_core.evaluate.sweep import MOST_MODELLED, MOST_TIMED
from cutegen_core.execute.compiler import compile_server
from cutegen_core.kernel.check_arguments import check_arguments
from cutegen_core.kernel.expressions import FUNCTIONS, MAX_TEXT
from cutegen_core.kernel.kernel_file import MAX_BYTES, MAX_PLAN, parse
from cutegen_core.kernel.plan_limits import MAX_SCRATCH_BYTES, MAX_THREADS
from cutegen_core.kernel.plan_records import DEVICE_NAMES
from cutegen_core.kernel.plan_toml import MAX_TABLES
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library, read
from cutegen_core.problems.lint.linting import lint
from cutegen_core.problems.lint.rules import RULES, Severity
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.errors import KernelFileError, ProblemError
from cutegen_core.records.event import Outcome, SessionState
from cutegen_core.records.job import JobState
from cutegen_core.records.performance import Word
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Signature, TensorRole, TensorSpec, Values, WorkloadRole
from cutegen_core.records.trial import Stage, Status
from cutegen_core.share.exports import FORMATS
from tests.later import Later
from tests.places import ROOT

keys = Later("pages.components.session.keys")

DOCS = ROOT / "docs"
KERNELS, PROBLEMS, WORDS = ((DOCS / name).read_text() for name in ("kernel-file.md", "problems.md", "words.md"))
HOPPER = KNOWN["sm_90a"]
SHAPE = (4096, 16384)


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def answers(text):
    """Return the rows of the table of complaints: what stands there, what is written in its place, what is said."""
    _, rows = text.split("| instead of |")
    table = rows.split("\n\n")[0].splitlines()[2:]
    found = [re.fullmatch(r"\| `(.+?)` \| `(.+?)` \| (.+) \|", row) for row in table]
    assert all(found)
    return [match.groups() for match in found]


SMALL, FULL = blocks(KERNELS, "cpp")
AS_IT_IS, FULL_PROBLEM, *_ = blocks(PROBLEMS, "python")
SIGNATURE = Signature(
    (TensorSpec("x", "float32", SHAPE),), (TensorSpec("out", "float32", SHAPE, TensorRole.OUTPUT),)
)  # fmt: skip


def said(text):
    """Return what the PATCH stage says to a kernel file."""
    try:
        kernel = parse(text)
        if refused := screen(kernel):
            return f"line {refused[0].line}: {refused[0].message}"
        kernel.plan(SIGNATURE, HOPPER)
    except KernelFileError as error:
        return str(error)
    return "nothing"


@pytest.fixture(scope="module")
def compiled(shared):
    return shared.compiler(HOPPER.arch).compile


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The two problems of the page, loaded as files."""
    folder = tmp_path_factory.mktemp("problems")
    (folder / "as_it_is.py").write_text(AS_IT_IS)
    (folder / "rms_rows.py").write_text(FULL_PROBLEM)
    return {entry.name: entry.problem for entry in library.load_folder(folder).entries}


def test_the_small_kernel_is_that_of_the_readme_and_compiles(compiled):
    assert blocks((DOCS.parent / "README.md").read_text(), "cpp") == [SMALL]
    kernel = parse(SMALL)
    assert not screen(kernel)
    assert not check_arguments(kernel.plan(SIGNATURE, HOPPER), compiled(kernel).kernels)


def test_the_full_kernel_fits_every_workload_of_the_full_problem(loaded, compiled, shared):
    kernel, problem = parse(FULL), loaded["rms_rows"]
    assert not screen(kernel)
    resources = compiled(kernel).kernels
    launched = {}
    reference = shared.reference(problem)
    for workload in problem.workloads:
        plan = kernel.plan(reference.signature(workload), HOPPER, workload=workload.name)
        assert not check_arguments(plan, resources)
        launched |= {launch.line: workload.name for launch in plan.launches if workload.role in read.TESTED}
    assert set(launched) == {launch.line for launch in kernel.launches}


@pytest.mark.parametrize("plan", blocks(KERNELS, "toml"))
def test_every_fragment_of_a_plan_can_be_resolved(plan):
    weight = TensorSpec("weight", "float32", SHAPE, TensorRole.PARAMETER)
    names = re.findall(r'kernel\s*= "(\w+)', plan)
    stubs = "".join(f"__global__ void {name}() {{}}\n" for name in names)
    assert (
        parse(f"/* cutegen\n{plan}*/\n{stubs}")
        .plan(replace(SIGNATURE, inputs=(*SIGNATURE.inputs, weight)), HOPPER)
        .launches
    )


@pytest.mark.parametrize(("instead_of", "written", "answer"), answers(KERNELS))
def test_a_kernel_file_is_answered_as_the_page_says(instead_of, written, answer):
    assert instead_of in SMALL
    assert said(SMALL.replace(instead_of, written, 1)) == answer


def test_a_missing_argument_is_answered_as_the_page_says(compiled):
    kernel = parse(SMALL.replace('args   = ["x", "out", "n"]', 'args   = ["x", "out"]'))
    (diagnostic,) = check_arguments(kernel.plan(SIGNATURE, HOPPER), compiled(kernel).kernels)
    assert f"```\n{diagnostic.message}\n```" in KERNELS


def test_the_limits_are_those_of_the_code():
    limits = compile_server.CompileLimits()
    memory = f"{limits.memory_bytes >> 30} GiB, {limits.log_bytes >> 20} MiB of messages"
    compiling = f"| {limits.seconds:g} s of processor time, {memory}"
    for said in (
        f"UTF-8, {MAX_BYTES >> 20} MiB; {MAX_PLAN >> 10} KiB", f"| {MAX_THREADS}; ",
        f"`smem_max` of the device: {HOPPER.smem_max} bytes",
        compiling, f"At most {MAX_SCRATCH_BYTES >> 30} GiB each", f"at most {MAX_TEXT} characters",
        f"compiles at most {MOST_TIMED} points, and {MOST_MODELLED} without a GPU",
        f"{Evaluator.run_timeout_s:g} s, else TIMEOUT",
    ):  # fmt: skip
        assert said in " ".join(KERNELS.split()), said


@pytest.mark.parametrize("section", MAX_TABLES)
def test_as_many_sections_are_possible_as_the_page_says(section):
    assert re.search(rf"^\| `\[\[{section}\]\]` \| (up|1) to {MAX_TABLES[section]} \|", KERNELS, re.MULTILINE)


def test_every_name_and_function_of_an_expression_is_on_the_page():
    for name in (*DEVICE_NAMES, *(f"{function}(" for function in FUNCTIONS)):
        assert f"`{name}" in KERNELS, name


def test_a_kernelbench_file_gets_its_workloads(loaded):
    problem = loaded["as_it_is"]
    assert problem.with_role(WorkloadRole.EMULATOR)
    assert problem.with_role(WorkloadRole.BENCHMARK)
    assert all(workload.sizes["batch_size"] < 1024 for workload in problem.with_role(WorkloadRole.EMULATOR))


def test_the_full_problem_is_sound(loaded, shared):
    problem = loaded["rms_rows"]
    assert problem.title == "RMS norm over rows"
    assert [f.rule for f in lint(problem, HOPPER, worker=shared.worker()) if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(("instead_of", "written", "answer"), answers(PROBLEMS))
def test_a_problem_file_is_answered_as_the_page_says(instead_of, written, answer):
    assert instead_of in FULL_PROBLEM
    with pytest.raises(ProblemError) as refused:
        read.read(FULL_PROBLEM.replace(instead_of, written, 1), "rms_rows", "rms_rows.py")
    assert str(refused.value) == answer


def test_roles_values_tolerances_and_rules_are_those_of_the_code():
    for word in (*WorkloadRole, *Values):
        assert f"| `{word}` |" in PROBLEMS, word
    for dtype, tolerance in DEFAULT_TOLERANCE.items():
        row = re.search(rf"^\| `{dtype}` \| (\S+) \| (\S+) \|$", PROBLEMS, re.MULTILINE)
        assert row, dtype
        assert (float(row[1]), float(row[2])) == (tolerance.atol, tolerance.rtol)
    for severity in Severity:
        row = re.search(rf"^\| {severity}: [^|]+\| (.+) \|$", PROBLEMS, re.MULTILINE)
        assert row, severity
        assert set(re.findall(r"`([\w-]+)`", row[1])) == {n for n, r in RULES.items() if r.severity is severity}


@pytest.mark.parametrize("words", [Stage, Status, SessionState, Gate, DecisionKind, Outcome, Autonomy, Word, JobState])
def test_every_word_of_the_code_is_explained(words):
    for word in words:
        assert f"| {word} |" in WORDS or f"**{word}**" in WORDS, word


def test_every_mark_is_explained():
    for mark in MARK_WORDS:
        assert f"| {mark} |" in WORDS, mark


def test_the_changelog_counts_the_rules_of_the_lint():
    assert f"{len(RULES)} rules." in (DOCS.parent / "CHANGELOG.md").read_text()


def test_every_export_format_has_its_row():
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "sharing.md").read_text(), re.MULTILINE)
    assert rows == list(FORMATS)


def test_every_key_that_the_readme_names_is_in_the_list_of_keys():
    way = (ROOT / "README.md").read_text().partition("## Ten minutes")[2].partition("\n## ")[0]
    named = set(re.findall(r"\b((?:Shift\+)?[A-Z])\b(?=\)| (?:compares|goes|opens|lists|with its parent))", way))
    named |= set(re.findall(r"\b(Shift\+[A-Z])\b", way))
    listed = {key for row, _ in keys.KEYS for key in row.replace("to", "/").split(" / ")}
    assert {"A", "E", "V", "Shift+V", "J", "Y", "D", "K", "W", "B", "H", "F"} <= named
    assert named <= listed
