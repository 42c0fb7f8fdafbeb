"""Editing a problem's text, saving it under a name, and what is refused on the way."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import cli
from cutegen_core.problems import edit, library, other_sizes, read, saved
from cutegen_core.records.errors import ProblemError, UsageError
from cutegen_core.records.problem import Problem, Tolerance, Values, Workload, WorkloadRole
from tests.places import DATA

SOFTMAX = library.load("softmax")
RELU_KERNEL = DATA / "relu.cu"
BARE = """\
'''A sum, größer.'''
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(1)


shape = (512, 64)


def get_inputs():
    return [torch.randn(*shape)]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path / "home"))


def again(text: str) -> Problem:
    return read.read(text, "softmax", "softmax.py")


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", library.catalogue(), ids=lambda p: p.name)
def test_what_is_written_reads_back_and_the_rest_stays(problem: Problem) -> None:
    text = edit.with_workloads(problem.source, problem.workloads)
    text = edit.with_tolerance(text, problem.tolerance)
    parsed = replace(read.read(text, problem.name, "mine.py"), existing=problem.existing)  # a file beside it
    assert (parsed.workloads, parsed.tolerance) == (problem.workloads, problem.tolerance)
    assert edit.list_changes(problem, parsed) == ()
    assert text[text.index("class Model") :] == problem.source[problem.source.index("class Model") :]


def test_a_text_without_literals_gets_them_below_its_imports() -> None:
    odd = Workload("odd", WorkloadRole.EMULATOR, {"shape": (3, 7)}, Values.SPARSE)
    text = edit.with_workloads(BARE, [odd])
    text = edit.with_tolerance(text, {"float32": Tolerance(1e-5, 1e-4, 64.0)})
    text = edit.with_edited_from(text, "softmax")
    parsed = again(text)
    assert parsed.workloads == (odd, Workload("benchmark", WorkloadRole.BENCHMARK))
    assert parsed.tolerance == {"float32": Tolerance(1e-5, 1e-4, 64.0)}
    assert read.edited_from(parsed) == "softmax"
    assert text.index("import torch.nn") < text.index("WORKLOADS") < text.index("class Model")
    assert text.startswith("'''A sum, größer.'''\n")


def test_tolerances_of_outputs_and_of_a_workload_read_back_and_are_listed() -> None:
    own = Tolerance(1e-6, 0.0)
    odd = Workload("odd", WorkloadRole.EMULATOR, {"shape": (3, 7)}, tolerance={"out1": own, "float32": own})
    text = edit.with_tolerance(edit.with_workloads(BARE, [odd]), {"float16": Tolerance(0.1, 0.1), "out1": own})
    parsed = again(text)
    assert (parsed.workloads[0], parsed.tolerance["out1"]) == (odd, own)
    before = again(edit.with_workloads(BARE, [Workload("odd", WorkloadRole.EMULATOR, {"shape": (3, 7)})]))
    changes = edit.list_changes(before, parsed)
    assert "out1: as its dtype → atol 1e-06, rtol 0, error multiple 32" in changes
    (of_workload,) = (change for change in changes if change.startswith("workload odd"))
    assert of_workload.endswith(
        "out1: atol 1e-06, rtol 0, error multiple 32, float32: atol 1e-06, rtol 0, error multiple 32"
    )


@pytest.mark.parametrize("name", ["🔥", "größer", 'a "b" \\n', "x\ty\u2028z", "\u202eleft", "👩\u200d🔬", "\udc80"])
def test_every_name_reads_back(name: str) -> None:
    odd = Workload(name, WorkloadRole.EMULATOR, {"dim": 3})
    text = edit.with_workloads(SOFTMAX.source, [odd])
    assert again(text).workloads[0] == odd
    assert "\\ud83d" not in text
    assert "\u202e" not in text


def added(problem: Problem) -> Workload:
    """Return the one that is proposed, read from the text with it."""
    text = edit.rewrite(problem.source, problem, edit.add_test_workload(problem))
    (new,) = (w for w in read.read(text, problem.name, "mine.py").workloads if w not in problem.workloads)
    return new


@pytest.mark.parametrize("problem", library.catalogue(), ids=lambda p: p.name)
def test_one_more_workload_has_odd_sizes_that_no_other_has(problem: Problem) -> None:
    new = added(problem)
    assert all(isinstance(size, int) and size % 2 for size in new.sizes.values())
    assert new.sizes not in [w.sizes for w in problem.workloads]
    small = [other_sizes.count_elements(w.sizes) for w in problem.with_role(WorkloadRole.EMULATOR)]
    most = max(1 << 20, *(4 * count for count in small))
    assert other_sizes.count_elements(new.sizes) < most, "small enough for the emulator"


def test_a_number_that_is_whole_in_some_workloads_only_stays() -> None:
    small = {"N": 64, "SCALE": 2}
    assert other_sizes.choose_other_sizes(small, {"N": 1024, "SCALE": 1.0}, [small]) == {"N": 128, "SCALE": 2}


HEADS = BARE.replace("shape = (512, 64)", "shape = (512, 64)\nheads = 8\nwidth = 3\npadding = 0\neps = 1e-5")


@pytest.mark.parametrize(
    ("small", "proposed"),
    [
        ({"heads": 2, "shape": (4, 16)}, {"heads": 2, "shape": (8, 32)}),  # multiples of the heads, as in the file
        ({"heads": 3, "shape": (5, 17)}, {"heads": 5, "shape": (7, 19)}),
        ({"padding": 1, "width": 3, "shape": (4, 64)}, {"padding": 1, "width": 3, "shape": (8, 64)}),
        ({"width": 3}, {"width": 3}),  # nothing tells that another one is possible
        ({"shape": (512, 64)}, {"shape": (512, 64)}),
        ({}, {}),
    ],
)
def test_one_more_workload_keeps_what_the_others_agree_on(
    small: dict[str, object], proposed: dict[str, object]
) -> None:
    entry = json.dumps({"role": "emulator"})[:-1] + "".join(f", {name!r}: {value!r}" for name, value in small.items())
    problem = again(HEADS.replace("class Model", f"WORKLOADS = {{'small': {entry}}}}}\nclass Model"))
    text = edit.rewrite(problem.source, problem, edit.add_test_workload(problem))
    assert next(w for w in again(text).workloads if w.name == "test 1").sizes == proposed


def test_changes_are_told_in_words() -> None:
    workloads = [w for w in SOFTMAX.workloads if w.name not in ("one", "ragged")]
    workloads += [Workload("ragged", WorkloadRole.EMULATOR, {"batch_size": 5, "dim": 999}, Values.SPARSE)]
    text = edit.with_workloads(SOFTMAX.source, workloads)
    text = edit.with_tolerance(text, {"float32": Tolerance(1e-6, 1e-2)})
    told = edit.list_changes(SOFTMAX, again(text.replace("torch.softmax(x, dim=1)", "torch.softmax(x, dim=0)")))
    assert told == (
        "workload ragged: emulator, batch_size = 5, dim = 1021 → emulator, batch_size = 5, dim = 999, sparse values",
        "workload one removed: emulator, batch_size = 1, dim = 1",
        "float32 rtol: 0.0001 → 0.01",
        "the reference itself",
    )


def test_a_comment_or_a_title_changes_nothing_that_is_judged() -> None:
    text = SOFTMAX.source.replace('TITLE = "Softmax over rows"', 'TITLE = "Mine"') + "\n# a remark\n"
    assert edit.list_changes(SOFTMAX, again(text)) == ()


@pytest.mark.parametrize(
    ("typed", "sizes"),
    [
        ("", {}),
        ("dim = 7", {"dim": 7}),
        ("dim=7, shape = (3, 64),config.eps = 1e-5", {"dim": 7, "shape": (3, 64), "config.eps": 1e-5}),
        ("get_inputs#2 = 5", {"get_inputs#2": 5}),
    ],
)
def test_sizes_are_typed_as_in_python(typed: str, sizes: dict[str, object]) -> None:
    assert edit.parse_sizes(typed) == sizes


@pytest.mark.parametrize(
    "typed", ["dim", "dim = ", "dim = seven", "dim = 7 7", "7", "dim = __import__('os')", "dim = 'x'"]
)
def test_what_is_no_size_is_refused(typed: str) -> None:
    with pytest.raises(ProblemError, match="is no"):
        edit.parse_sizes(typed)


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED = {
    "size of 0": ('"ragged": {"role": "emulator", "dim": 0}', "'ragged' sets dim = 0: a size is at least 1"),
    "negative": ('"ragged": {"role": "emulator", "dim": -3}', "'ragged' sets dim = -3: a size is at least 1"),
    "no test": ('"own": {"role": "benchmark"}', "none to test with"),
    "twice": ('"a": {"role": "emulator"}, "a": {"role": "emulator", "dim": 3}', "two workloads are called 'a'"),
    "nameless": ('" ": {"role": "emulator"}', "needs a name"),
    "a path": ('"../x": {"role": "emulator"}', "needs a name"),
    "no role": ('"a": {"dim": 3}', "roles: emulator, correctness, benchmark"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_workloads_that_make_no_sense_are_refused_at_their_line(case: str) -> None:
    entry, words = REFUSED[case]
    first, _, rest = SOFTMAX.source.partition("WORKLOADS = {")
    text = first + "WORKLOADS = {\n    " + entry + ",\n}" + rest[rest.index("\n}") + 2 :]
    with pytest.raises(ProblemError) as refused:
        again(text)
    assert words in str(refused.value)
    line = read.line_of(refused.value, "softmax.py")
    assert "WORKLOADS" in text.splitlines()[line - 1] if case == "no test" else entry in text.splitlines()[line - 1]


def test_a_size_that_is_0_in_the_file_may_be_0() -> None:
    text = BARE.replace("shape = (512, 64)", "shape = (512, 64)\npadding = 0")
    text = edit.with_workloads(text, [Workload("a", WorkloadRole.EMULATOR, {"padding": 0})])
    assert again(text).workloads[0].sizes == {"padding": 0}


def test_two_workloads_of_one_name_and_an_infinite_tolerance_are_refused() -> None:
    with pytest.raises(ProblemError, match="two workloads are called 'one'"):
        edit.with_workloads(SOFTMAX.source, [SOFTMAX.workloads[0]] * 2)
    with pytest.raises(ProblemError, match=r"TOLERANCE\['float32'\] needs"):
        again(SOFTMAX.source.replace("1e-4}", "1e999}"))


# -- saved under a name ------------------------------------------------------------------------------------------------


def edited_relu() -> str:
    source = library.load("relu").source
    odd = Workload("odd", WorkloadRole.EMULATOR, {"batch_size": 3, "dim": 41})
    return edit.with_edited_from(edit.with_workloads(source, [odd]), "relu")


@pytest.mark.usefixtures("home")
def test_a_saved_problem_is_found_by_name_and_listed() -> None:
    kept = saved.save("relu_odd", edited_relu(), {"relu"})
    assert library.load("relu_odd") == kept
    assert next(e.name for e in library.list_known().entries) == "relu_odd"
    assert edit.list_changes(library.load("relu"), kept)
    saved.remove("relu_odd")
    with pytest.raises(UsageError, match="nor a saved one"):
        library.load("relu_odd")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["", "../x", "a/b", "1st", "a b", "x" * 65, "relu"])
def test_names_that_cannot_be_files_or_hide_another_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        saved.save(name, edited_relu(), {"relu"})


@pytest.mark.usefixtures("home")
def test_a_saved_problem_is_replaced_only_when_that_is_meant() -> None:
    saved.save("mine", edited_relu(), ())
    with pytest.raises(UsageError, match="already"):
        saved.save("mine", SOFTMAX.source, ())
    saved.save("mine", SOFTMAX.source, (), replace=True)
    assert library.load("mine").title == "Softmax over rows"
    with pytest.raises(ProblemError, match="no WORKLOADS yet"):
        saved.save("bare", BARE, ())


def test_a_trial_of_an_edited_file_runs_at_its_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relu_odd.py"
    path.write_text(edited_relu())
    assert cli.main(["check", str(RELU_KERNEL), "--problem", str(path), "--executor", "cpu", "--json"]) == 0
    trial = json.loads(capsys.readouterr().out)
    ran = {verdict["workload"].partition(",")[0].partition(" at ")[0] for verdict in trial["correctness"]["verdicts"]}
    assert ran == {"odd", "benchmark"}


def test_an_existing_kernel_is_saved_beside_its_problem_and_goes_with_it(home: None) -> None:
    kernel = "/* cutegen */ // mine"
    text = edit.with_existing(edited_relu(), "elsewhere.cu")
    with pytest.raises(ProblemError, match=r"begins with elsewhere\.cu, which is not here"):
        saved.save("mine", text, ())
    kept = saved.save("mine", text, (), existing=kernel)
    assert (saved.folder() / "mine.cu").read_text() == kernel
    assert library.load("mine").existing == kept.existing == kernel
    assert library.load("mine").key == kept.key
    saved.save("mine", edit.with_existing(text, ""), (), replace=True)
    assert not (saved.folder() / "mine.cu").exists()
    assert library.load("mine").existing == ""
    saved.save("mine", text, (), replace=True, existing=kernel)
    saved.remove("mine")
    assert not list(saved.folder().iterdir())


def test_an_existing_kernel_is_among_the_changes() -> None:
    with_kernel, other = (replace(SOFTMAX, existing=text) for text in ("a\nb", "c"))
    assert edit.list_changes(SOFTMAX, with_kernel) == ("existing kernel added: 2 lines",)
    assert edit.list_changes(with_kernel, other) == ("existing kernel: another one, 1 line",)
    assert edit.list_changes(other, SOFTMAX) == ("existing kernel removed",)


def test_sizes_without_a_name_are_told_by_their_place() -> None:
    workload = Workload("small", WorkloadRole.EMULATOR, {"rows": 3, "get_inputs#2": 5})
    assert edit.describe_workload(workload) == "emulator, rows = 3, number 3 of get_inputs = 5"
