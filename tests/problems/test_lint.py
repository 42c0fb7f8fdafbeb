"""The lint: one change to a sound problem triggers its rule; the built-in problems have the findings listed here."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import cli
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import KNOWN
from cutegen_core.machine.worker import Worker
from cutegen_core.problems import library, read
from cutegen_core.problems.lint import linting, sizes
from cutegen_core.problems.lint.rules import RULES, LintFinding, Severity
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from tests.few_runs import few_runs
from tests.places import DATA
from tests.shared_tools import SharedTools

DEVICE = KNOWN["sm_90a"]
SOUND = """\
import torch
import torch.nn as nn

ALLOW = ()
TOLERANCE = {"float32": {"atol": 1e-6, "rtol": 1e-5}}
WORKLOADS = {
    "ragged": {"role": "emulator", "batch_size": 5, "dim": 61},
    "tile": {"role": "emulator", "batch_size": 4, "dim": 64},
    "large_scale": {"role": "emulator", "batch_size": 3, "dim": 7, "values": "large_scale"},
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, y):
        return torch.lerp(x, y, 0.25)


batch_size = 4096
dim = 4096


def get_inputs():
    return [torch.randn(batch_size, dim), torch.randn(batch_size, dim)]
"""
FORWARD = "return torch.lerp(x, y, 0.25)"
INPUTS = "[torch.randn(batch_size, dim), torch.randn(batch_size, dim)]"
LARGE = '    "large_scale": {"role": "emulator", "batch_size": 3, "dim": 7, "values": "large_scale"},\n'


@pytest.fixture(scope="module")
def worker(shared: SharedTools) -> Worker:
    return shared.worker()


def changed(*pairs: tuple[str, str]) -> Problem:
    """Return the sound problem with these texts replaced; each must be there."""
    source = SOUND
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new)
    return read.read(source, "mine", "mine.py")


def linted(problem: Problem, worker: Worker) -> tuple[LintFinding, ...]:
    return linting.lint(problem, DEVICE, worker=worker)


def forward(text: str) -> tuple[str, str]:
    return FORWARD, text


def inputs(text: str) -> tuple[str, str]:
    return INPUTS, f"[{text}, torch.randn(batch_size, dim)]"


ONE_CHANGE = {
    "random-output": [forward("return torch.relu(x) + 2.0 * y + torch.rand_like(x)")],
    "nondeterministic": [forward("import time; return torch.relu(x) + 2.0 * y * (time.time_ns() % 10007)")],
    "stateful": [forward("self.calls += 1; return torch.relu(x) + 2.0 * y * self.calls")],
    "unseeded-inputs": [inputs("torch.randn(batch_size, dim) * int.from_bytes(__import__('os').urandom(2), 'big')")],
    "nonfinite-output": [forward("return torch.log(x) + y")],
    "constant-output": [forward("return x * 0 + y * 0 + 7")],
    "ignores-inputs": [forward("return torch.arange(x.shape[1]).float() * torch.ones_like(x)")],
    "zeros-pass": [forward("return 1e-9 * (x + y)"), ("1e-5}}", '1e-5, "error_multiple": 1e9}}')],
    "mean-passes": [forward("return 1e-5 * (x + y) + 1"), ("1e-5}}", '1e-3, "error_multiple": 1e4}}'), (LARGE, "")],
    "copy-passes": [forward("return torch.relu(x)"), inputs("torch.rand(batch_size, dim)"), (LARGE, "")],
    "untested-input": [forward("return torch.relu(x) + 1e-12 * y")],
    "fixed-input": [inputs("torch.linspace(-1, 1, dim).expand(batch_size, dim).contiguous()")],
    "mostly-one-value": [forward("return torch.relu(x - 4) + torch.relu(y - 3)")],
    "half-passes": [("1e-5}}", '1e-1, "error_multiple": 1e6}}')],
    "loose-tolerance": [("1e-5}}", "2e-3}}")],
    "inexact-reference": [forward("z = torch.lerp(x, y, 0.25); return z if z.dtype is torch.float64 else z + 0.01")],
    "autocast": [forward("with torch.autocast('cuda'): z = torch.relu(x) + 2.0 * y\n        return z")],
    "open-choice": [forward("return torch.relu(x) + 2.0 * y * torch.round(x).topk(1)[1]")],
    "one-sign": [inputs("torch.rand(batch_size, dim)"), (LARGE, "")],
    "narrow-inputs": [inputs("3 + 1e-4 * torch.rand(batch_size, dim)")],
    "no-hard-values": [(LARGE, "")],
    "writes-inputs": [forward("x.relu_(); return x + 2.0 * y")],
    "one-shape": [
        ('"batch_size": 5, "dim": 61', '"batch_size": 4, "dim": 64'),
        ('"batch_size": 3, "dim": 7', '"batch_size": 4, "dim": 64'),
    ],
    "only-tiles": [('"dim": 61', '"dim": 32'), ('"dim": 7', '"dim": 8')],
    "small-benchmark": [("batch_size = 4096", "batch_size = 64")],
    "too-large": [("batch_size = 4096", "batch_size = 4096000")],
    "weak-baseline": [forward("return x / (1 + torch.abs(x)) + 2.0 * y")],
    "untraced": [
        forward("return torch.relu(x) + 2.0 * y if float(x.sum()) < 1e9 else x"),
        ("batch_size = 4096", "batch_size = 16"),
    ],
    "unknown-operation": [forward("return torch.special.bessel_j0(x) + 2.0 * y")],
    "no-float64": [forward("return torch.relu(x) + 2.0 * (y.view(torch.int32) & 1023).float()")],
    "values-not-judged": [forward("return torch.log(x.abs()) + 2.0 * y")],
    "wrong-alias": [("ALLOW = ()", 'ALLOW = ()\nALIAS = {"out": "z"}')],
    "dropout-off": [("self.calls = 0", "self.drop = nn.Dropout()"), forward("return self.drop(x) + 2.0 * y")],
    "batch-norm-training": [
        ("self.calls = 0", "self.norm = nn.BatchNorm1d(dim)"),
        forward("return self.norm(x) + 2.0 * y"),
    ],
}  # fmt: skip
BY_HAND = {"empty-output", "no-benchmark", "existing-refused", "existing-fails", "existing-passes"}
"""Rules that no text can break: files with a size of 0 are refused, the file's own sizes are the benchmark, and an
existing kernel lies beside the text."""


def test_a_reason_why_values_are_not_judged_is_said_once(worker: Worker) -> None:
    tied = changed(forward("return torch.relu(x) + 2.0 * y * torch.round(x).topk(1)[1]"))
    (found,) = (one for one in linted(tied, worker) if one.rule == "values-not-judged")
    assert "constant, " in found.what
    assert found.what.count("PyTorch leaves open which of equal elements topk takes") == 1


def test_a_sound_problem_has_no_findings(worker: Worker) -> None:
    assert linted(changed(), worker) == ()


def test_a_batch_norm_with_running_statistics_is_not_in_training_mode(worker: Worker) -> None:
    norm = ("self.calls = 0", "self.norm = nn.BatchNorm1d(dim).eval()")
    assert "batch-norm-training" not in {
        found.rule for found in linted(changed(norm, forward("return self.norm(x) + 2.0 * y")), worker)
    }


def test_every_rule_is_tried() -> None:
    assert set(RULES) == set(ONE_CHANGE) | BY_HAND


@pytest.mark.parametrize("rule", ONE_CHANGE)
def test_one_change_breaks_the_rule(rule: str, worker: Worker) -> None:
    found = linted(changed(*ONE_CHANGE[rule]), worker)
    assert rule in {finding.rule for finding in found}, found
    assert all(finding.what and finding.why and finding.do for finding in found)


def test_an_empty_output_and_a_missing_benchmark_are_said(worker: Worker) -> None:
    empty = Workload("empty", WorkloadRole.EMULATOR, {"batch_size": 0})
    rules = {finding.rule for finding in linted(replace(changed(), workloads=(empty,)), worker)}
    assert rules >= {"empty-output", "no-benchmark"}


def test_other_dtypes_are_asked_for_half_their_bits_too(worker: Worker) -> None:
    half = (
        inputs("torch.randn(batch_size, dim).half()"),
        ("torch.randn(batch_size, dim)]", "torch.randn(batch_size, dim).half()]"),
    )
    sound, loose = ('"float32"', '"float16"'), ('1e-6, "rtol": 1e-5', '0.2, "rtol": 0.2, "error_multiple": 4096')
    assert "half-passes" not in {f.rule for f in linted(changed(*half, sound), worker)}
    assert "half-passes" in {f.rule for f in linted(changed(*half, sound, loose, (LARGE, "")), worker)}


def test_what_cannot_be_counted_is_not_called_small(worker: Worker) -> None:
    layer = [("self.calls = 0", "self.rnn = nn.GRU(dim, dim)"), forward("return self.rnn(x)[0] + y")]
    small = [("batch_size = 4096", "batch_size = 16"), ("dim = 4096", "dim = 64")]
    assert "small-benchmark" not in {f.rule for f in linted(changed(*layer, *small), worker)}


def test_the_worst_comes_first(worker: Worker) -> None:
    found = linted(changed(forward("return x * 0 + y * 0 + 7"), (LARGE, ""), ("1e-5}}", "2e-3}}")), worker)
    order = list(Severity)
    assert [order.index(f.severity) for f in found] == sorted(order.index(f.severity) for f in found)
    assert found[0].severity is Severity.ERROR
    assert len({f.severity for f in found}) > 1


# -- what it offers to mend --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", ["one-sign", "no-hard-values", "one-shape", "only-tiles", "small-benchmark", "too-large"]
)
def test_the_workloads_it_offers_mend_the_finding(rule: str, worker: Worker) -> None:
    problem = changed(*ONE_CHANGE[rule])
    (offered,) = [f for f in linted(problem, worker) if f.rule == rule]
    mended = replace(problem, workloads=offered.workloads)
    assert rule not in {f.rule for f in linted(mended, worker)}


def test_nothing_is_offered_that_the_reference_does_not_take(worker: Worker, tmp_path: Path) -> None:
    picky = changed(
        *ONE_CHANGE["only-tiles"], forward("return torch.relu(x).view(-1, 8).repeat(1, 1).view_as(x) + 2.0 * y")
    )
    with Reference(picky, tmp_path, worker=worker) as reference:
        made = sizes.find_awkward_test(reference)
        assert made is None or reference.signature(made)
    log = changed(forward("return torch.log(x) + y"), inputs("torch.rand(batch_size, dim) + 1"), (LARGE, ""))
    (found,) = [f for f in linted(log, worker) if f.rule == "one-sign"]
    assert found.workloads == ()


# -- the built-in problems ---------------------------------------------------------------------------------------------

BUILT_IN: dict[str, set[str]] = {
    "add_rmsnorm": {"weak-baseline"},
    "conv_bias_relu": {"weak-baseline"},
    "fused_add_rmsnorm": {"weak-baseline", "small-benchmark"},
    "gat_softmax_aggregate": {"weak-baseline"},
    "gather_mean_backward": {"weak-baseline"},
    "gather_mean_backward_deterministic_bf16": {"weak-baseline"},
    "merge_attn_states_lse": {"weak-baseline", "small-benchmark"},
    "per_token_quant_fp8": {"weak-baseline", "small-benchmark"},
    "rmsnorm": {"weak-baseline"},
    "rotary_embedding": {"weak-baseline", "small-benchmark"},
    "sage_layer": {"weak-baseline"},
    "silu_and_mul": {"weak-baseline", "small-benchmark"},
    "softsign": {"weak-baseline"},
    "swish": {"weak-baseline"},
    "topk_softmax": {"weak-baseline", "small-benchmark", "values-not-judged"},
}
"""They are written out as formulas on purpose, and their texts say so; those of serving have its small shapes, too, and
an output of ids is judged on ties by workloads of its own. All others have no findings."""


LINTED = ("relu", "softsign")
"""One without findings, and one with; the others are thorough. An existing kernel has a test of its own."""


@pytest.mark.parametrize(
    "problem",
    [pytest.param(p, id=p.name, marks=() if p.name in LINTED else pytest.mark.thorough) for p in library.catalogue()],
)
def test_the_built_in_problems_have_these_findings_and_no_others(problem: Problem, worker: Worker) -> None:
    assert {f.rule for f in linted(problem, worker)} == BUILT_IN.get(problem.name, set())


# -- without running anything, and from the command line ---------------------------------------------------------------


def test_a_glance_needs_no_worker() -> None:
    rules = {f.rule for f in linting.check_static(changed(*ONE_CHANGE["only-tiles"], ("1e-5}}", "2e-3}}")))}
    assert rules == {"only-tiles", "loose-tolerance"}
    assert linting.check_static(changed()) == ()


def test_the_command_line_lints_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(changed(*ONE_CHANGE["zeros-pass"]).source)
    assert cli.main(["problems", "--lint", "--path", str(path), "--json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["problems"]
    found = {finding["rule"]: finding for finding in entry["findings"]}
    assert found["zeros-pass"]["severity"] == "error"
    assert "kernel that writes zeros" in found["zeros-pass"]["what"]
    path.write_text(SOUND)
    assert cli.main(["problems", "--lint", str(path)]) == 0
    assert "no findings" in capsys.readouterr().out


def test_a_cheat_that_another_test_catches_is_none(worker: Worker) -> None:
    copied = changed(*ONE_CHANGE["copy-passes"][:2])
    assert Values.LARGE_SCALE in {w.values for w in copied.workloads}
    assert "copy-passes" not in {f.rule for f in linted(copied, worker)}


def test_values_that_are_drawn_signed_answer_for_inputs_of_one_sign(worker: Worker) -> None:
    positive = changed(inputs("torch.rand(batch_size, dim)"))
    assert Values.LARGE_SCALE in {w.values for w in positive.workloads}
    assert "one-sign" not in {f.rule for f in linted(positive, worker)}


RELU = (DATA / "relu.cu").read_text()


@pytest.mark.parametrize("own_tools", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["", "own tools"])
@pytest.mark.parametrize(
    ("existing", "run", "rule", "words"),
    [
        pytest.param(RELU, False, "", "", marks=pytest.mark.thorough),
        (RELU, True, "existing-passes", "existing kernel: PASSED "),
        pytest.param(
            RELU.replace("> 0.0f", "> 0.5f"), True, "existing-fails", "existing kernel: INCORRECT_NUMERICAL",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            RELU.replace("in(i) >", "missing(i) >"), False, "existing-refused", "existing kernel: COMPILE_ERROR",
            marks=pytest.mark.thorough,
        ),
        ("__global__ void k() {}", False, "existing-refused", "existing kernel: line 1: a kernel file opens with"),
    ],
    ids=["right", "passes", "fails", "uncompilable", "no kernel file"],
)  # fmt: skip
def test_an_existing_kernel_that_cannot_be_used_is_a_finding(
    existing: str, run: bool, rule: str, words: str, own_tools: bool, shared: SharedTools, worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if not own_tools:
        monkeypatch.setattr("cutegen_core.problems.lint.existing.Compiler", shared.compiler)
        monkeypatch.setattr("cutegen_core.problems.lint.existing.CpuExecutor", lambda: shared.executor)
        monkeypatch.setattr("cutegen_core.problems.lint.existing.closing", nullcontext)
    problem = replace(few_runs("relu"), existing=existing)
    found = linting.lint(problem, DEVICE, worker=worker, run_existing=run)
    of_existing = [finding for finding in found if finding.rule.startswith("existing")]
    assert [finding.rule for finding in of_existing] == ([rule] if rule else [])
    assert all(finding.what.startswith(words) for finding in of_existing)


@pytest.mark.parametrize(
    ("alias", "words"),
    [('{"out": "z"}', "'z' is no input (inputs: x, y)"), ('{"out1": "x"}', "'out1' is no output (outputs: out)")],
)
def test_an_alias_must_name_tensors_that_can_replace_one_another(alias: str, words: str, worker: Worker) -> None:
    problem = changed(("ALLOW = ()", f"ALLOW = ()\nALIAS = {alias}"))
    (found,) = [finding for finding in linted(problem, worker) if finding.rule == "wrong-alias"]
    assert words in found.what
    assert read.alias(changed(("ALLOW = ()", 'ALLOW = ()\nALIAS = {"out": "x"}'))) == {"out": "x"}
