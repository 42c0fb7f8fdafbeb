"""The playbook: what it recognises, that its kernels are right on the emulator and compile for a GPU, and redirects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.propose.playbook import NotInPlaybook, Target, Variant, cover, menu, propose, redirect
from cutegen_core.propose.playbook.proposer import PlaybookProposer
from cutegen_core.propose.port import Attempt, Declined, Finished, Proposal, ProposalRequest, WantsStudy
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import Problem, Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Status
from tests.propose.playbook.right import DEVICE, assert_level_right, assert_right, problem, variants_of
from tests.shared_tools import SharedTools

ROWS = {"R": 4, "C": 64}
CUBE = {"R": 2, "C": 40, "D": 36}
PRODUCT = {"M": 64, "N": 64, "K": 32}
DRAW = {"x": "torch.randn(R, C)"}
CASES = {
    "chain of two tensors": problem(
        "F.silu(x) * y - 0.5", ROWS, {"R": 3, "C": 37}, **DRAW, y="torch.randn(R, C)"),
    "broadcast rows and columns": problem(
        "torch.where(x > 0, x * w, y[:, None] - x)", ROWS, {"R": 5, "C": 13}, **DRAW,
        w="torch.randn(C)", y="torch.randn(R)"),
    "halves of a row, float16": problem(
        "F.gelu(x[:, :C]) * x[:, C:]", ROWS, {"R": 3, "C": 33}, x="torch.randn(R, 2 * C).half()"),
    "transposed operand": problem(
        "x + y.T", ROWS, {"R": 3, "C": 37}, **DRAW, y="torch.randn(C, R)"),
    "of three operands": problem(
        "(x.masked_fill(y > 0, -2.0), torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=0.5), torch.fmod(x, 0.7), "
        "torch.remainder(x, -0.7), x // 0.3, x.clamp_max(0.2), torch.nan_to_num(x / x), F.prelu(x, x[0, :1]))",
        ROWS, {"R": 3, "C": 37}, **DRAW, y="torch.randn(R, C)"),
    "functions": problem(
        "(torch.atan(x) + torch.sinh(x) * torch.asinh(x) - torch.cosh(x), torch.asin(x / 8) * torch.acos(x / 8), "
        "torch.logaddexp(x, x * x), torch.hypot(x, x + 1), torch.copysign(x, -x), torch.isfinite(x), x.frac())",
        ROWS, {"R": 3, "C": 37}, **DRAW),
    "bits and whole numbers": problem(
        "((a ^ 5) | (a & 3), ~a, a // 7, a % 7, (a > 3) ^ (a < 9), ~(a > 3), torch.fmod(a, 7), "
        "torch.div(a, -3, rounding_mode='trunc'))",
        ROWS, {"R": 3, "C": 37}, a="torch.randint(-100, 100, (R, C))"),
    "masked softmax": problem(
        "torch.softmax(x.masked_fill(~(y > -1), -torch.inf), -1), (y > 2).any(-1), (y > -9).all(-1)",
        ROWS, {"R": 3, "C": 37}, **DRAW, y="torch.randn(R, C)"),
    "pieces, stacked again": problem(
        "torch.stack((x.unbind(1)[2], x.unbind(1)[0]), 1), torch.cat((x[:, 0], x[:0, 1])), F.glu(x, -1)",
        {"R": 4, "C": 64}, {"R": 3, "C": 38}, x="torch.randn(R, 3, C)"),
    "a gated product": problem(
        "F.gelu(self.up(x).chunk(2, -1)[0]) * self.up(x).chunk(2, -1)[1]", PRODUCT, {"M": 7, "N": 10, "K": 9},
        "self.up = nn.Linear(K, 2 * N)", x="torch.randn(2, M, K)"),
    "softmax": problem("torch.softmax(x, dim=-1)", ROWS, {"R": 3, "C": 1030}, **DRAW),
    "log-softmax over the middle": problem(
        "F.log_softmax(x, dim=1)", CUBE, {"R": 2, "C": 37, "D": 5}, x="torch.randn(R, C, D)"),
    "layer norm, bfloat16": problem(
        "self.norm(x)", ROWS, {"R": 3, "C": 40}, "self.norm = nn.LayerNorm(C, dtype=torch.bfloat16)",
        x="torch.randn(R, C).bfloat16() + 4"),
    "group norm": problem(
        "self.norm(x)", {"R": 2, "C": 8, "D": 36}, {"R": 3, "C": 4, "D": 7}, "self.norm = nn.GroupNorm(4, C)",
        x="torch.randn(R, C, D)"),
    "maximum of a column": problem("torch.max(x, dim=0)[0]", ROWS, {"R": 33, "C": 5}, **DRAW),
    "chunks of a row": problem(
        "F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]", {"R": 6, "C": 96}, {"R": 5, "C": 80},
        x="torch.randn(R, C).half()"),
    "chunks that are no whole vectors": problem(
        "x[:, C // 2:] - x[:, :C // 2]", {"R": 6, "C": 96}, {"R": 5, "C": 54}, x="torch.randn(R, C)"),
    "two results of equal extents": problem(
        "(torch.exp(x) + y, x * y)", ROWS, {"R": 3, "C": 37}, **DRAW, y="torch.randn(R, C)"),
    "a row norm and its operand": problem(
        "(F.rms_norm(x + y, (C,)), x + y)", ROWS, {"R": 5, "C": 44}, **DRAW, y="torch.randn(R, C)"),
    "softmax and its logarithm of the sum": problem(
        "(torch.softmax(x, -1), torch.logsumexp(x, -1))", ROWS, {"R": 7, "C": 36}, **DRAW),
    "logarithms of sums with infinities": problem(
        "torch.logsumexp(x, -1)", ROWS, {"R": 7, "C": 36},
        x="torch.cat([torch.randn(R - 1, C).fill_diagonal_(torch.inf), torch.full((1, C), -torch.inf)])"),
    "weights of a row, and their logarithm": problem(
        "(x * torch.exp(s).unsqueeze(-1) + y, torch.log1p(torch.exp(s)))", CUBE, {"R": 3, "C": 7, "D": 24},
        x="torch.randn(R, C, D)", s="torch.randn(R, C)", y="torch.randn(R, C, D)"),
    "weights of a row, whose operand is transposed": problem(
        "(x.transpose(1, 2) * torch.exp(s).unsqueeze(-1), torch.exp(s) + 1.0)", CUBE, {"R": 3, "C": 7, "D": 24},
        x="torch.randn(R, D, C)", s="torch.randn(R, C)"),
    "a product beside what it is made of": problem(
        "(x @ y, x * 2.0)", {"R": 40, "C": 24}, {"R": 9, "C": 21}, **DRAW, y="torch.randn(C, R)"),
    "a loss over everything": problem(
        "torch.mean((x - y).pow(2).sum(1).sqrt())", ROWS, {"R": 7, "C": 19}, **DRAW, y="torch.randn(R, C)"),
    "linear, scaled, relu": problem(
        "torch.relu(self.linear(x) * 0.5)", PRODUCT, {"M": 70, "N": 33, "K": 19}, "self.linear = nn.Linear(K, N)",
        x="torch.randn(M, K)"),
    "parts of a product, arranged by heads": problem(
        "torch.softmax(self.up(x).unflatten(-1, (3, N)).movedim(-2, 0)[1].view(M, 4, N // 4).transpose(0, 1), -1)",
        {"M": 12, "N": 16, "K": 9}, {"M": 5, "N": 24, "K": 7}, "self.up = nn.Linear(K, 3 * N)", x="torch.randn(M, K)"),
    "batched product of transposed": problem(
        "torch.bmm(a.transpose(1, 2), b.transpose(1, 2))", PRODUCT, {"M": 5, "N": 67, "K": 9},
        a="torch.randn(3, K, M)", b="torch.randn(3, N, K)"),
    "attention": problem(
        "torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v", PRODUCT, {"M": 9, "N": 21, "K": 5},
        q="torch.randn(2, M, K)", k="torch.randn(2, N, K)", v="torch.randn(2, N, K)"),
}  # fmt: skip
ONE_LEVEL: dict[tuple[str, str], dict[str, int]] = {("linear, scaled, relu", "tiled"): {}, ("group norm", "tuned"): {}}
"""What is dear to compile: one kernel of it; the others are thorough. `test_products` has a product of tensor cores."""
COMPILED = ("broadcast rows and columns", "softmax", "log-softmax over the middle", "linear, scaled, relu")


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_every_variant_is_right_on_awkward_shapes(case: str, shared: SharedTools, tmp_path: Path) -> None:
    """The kernels are written from the benchmark workload and must hold for another one, run instrumented."""
    variants = variants_of(CASES[case], shared, tmp_path)
    awkward = CASES[case].workloads[1:]
    assert_right(CASES[case], variants, awkward, shared, tmp_path, compiled=case in COMPILED)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("case", "level"), list(ONE_LEVEL))
def test_one_variant_is_right_at_both_workloads(case: str, level: str, shared: SharedTools, tmp_path: Path) -> None:
    assert_level_right(CASES[case], level, ONE_LEVEL[case, level], shared, tmp_path)


def graph(op: str, *more: Operand, shape: tuple[int, ...] = (8, 64), **kwargs: Operand) -> tuple[Graph, Signature]:
    nodes = (
        Node("x", "input", (), {}, (8, 64), "float32"),
        Node("y", op, (Ref("x"), *more), kwargs, shape, "float32"),
    )
    inputs, out = TensorSpec("x", "float32", (8, 64)), TensorSpec("out", "float32", shape, TensorRole.OUTPUT)
    return Graph(nodes, ("y",)), Signature((inputs,), (out,))


@pytest.mark.parametrize(
    ("op", "more", "shape", "names"),
    [
        ("aten.relu", (), (8, 64), ["naive", "vectorised", "tuned"]),
        ("aten.softmax", (-1,), (8, 64), ["naive", "shuffle", "registers", "tuned"]),
        ("aten.sum", ((0,),), (64,), ["naive", "tiled", "tuned"]),
        ("aten.mm", (Ref("x"),), (8, 64), ["naive", "tiled", "multistage", "3xTF32"]),
    ],
)
def test_the_menu_follows_the_class(
    op: str, more: tuple[Operand, ...], shape: tuple[int, ...], names: list[str]
) -> None:
    traced, signature = graph(op, *more, shape=shape)
    variants = propose(traced, signature, "12_Some Problem!")
    assert [v.name for v in variants] == names
    assert [(v.name, v.idea) for v in variants] == list(menu(traced, signature))
    assert len({v.source for v in variants}) == len(names)
    assert "some_problem_kernel" in variants[0].source
    assert [kernel_file.parse(v.source).idea for v in variants] == [v.idea for v in variants]
    assert len(list(kernel_file.parse(variants[-1].source).combinations(DEVICE))) > 4


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("aten.mode", "'aten.mode' is not in the playbook; covered are elementwise chains"),
        ("aten.histc", "'aten.histc' is not in the playbook"),
    ],
)
def test_what_is_not_covered_is_said(op: str, message: str) -> None:
    with pytest.raises(NotInPlaybook, match=message):
        propose(*graph(op), "x")


def test_a_refusal_names_the_line_of_the_file() -> None:
    traced, signature = graph("aten.mode")
    found = replace(traced, nodes=tuple(replace(node, line=12) for node in traced.nodes))
    with pytest.raises(NotInPlaybook, match=r"line 12: 'aten\.mode' is not in the playbook"):
        propose(found, signature, "x")
    assert cover(found, signature).missing == "no rule for aten.mode (line 12)"


def test_more_kernels_than_a_file_may_hold_are_not_in_the_playbook() -> None:
    """Refuse what no session could go on with, such as the kernels of a whole network."""
    traced, signature = graph("aten.cumsum", 1)
    scans = tuple(Node(f"y{n}", "aten.cumsum", (Ref(f"y{n - 10}" if n > 9 else "y"), n % 2), {}, (8, 64), "float32")
                  for n in range(1040))  # fmt: skip
    chains = tuple(f"y{n}" for n in range(1030, 1040))
    with pytest.raises(NotInPlaybook, match=r"do not fit into one kernel file .* at most \d+ (fit|are possible)"):
        propose(Graph((*traced.nodes, *scans), chains), replace(signature, outputs=signature.outputs * 10), "x")


def test_a_length_that_no_int_holds_has_a_wider_parameter(shared: SharedTools, tmp_path: Path) -> None:
    made = problem("x / x.norm()", {"N": 2**21, "C": 2**12}, {"N": 7, "C": 12}, x="torch.rand(N, C)")
    signature = shared.reference(made, tmp_path).signature(made.workloads[0])
    *_, last = variants_of(made, shared, tmp_path, Target(DEVICE))
    kernel = kernel_file.parse(last.source)
    assert kernel.plan(signature, DEVICE, kernel.defaults()).launches
    assert "long extent" in last.source
    small = problem("x / x.norm()", {"N": 2**10, "C": 2**12}, {"N": 7, "C": 12}, x="torch.rand(N, C)")
    assert "int extent" in variants_of(small, shared, tmp_path, Target(DEVICE))[-1].source


def test_an_error_of_the_playbooks_own_costs_one_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("cutegen_core.propose.playbook.lower", fails)
    said = cover(*graph("aten.relu")).missing
    assert "the playbook failed on this reference: ZeroDivisionError: by zero" in said
    answer = PlaybookProposer().respond(request())
    assert isinstance(answer, Finished)
    assert "a defect of the workbench" in answer.reason


def test_a_reference_without_a_graph_is_not_in_the_playbook() -> None:
    _, signature = graph("aten.relu")
    with pytest.raises(NotInPlaybook, match="could not be traced"):
        propose(Graph(reason="data-dependent control flow"), signature, "x")


def defaults(variant: Variant | None) -> Mapping[str, float]:
    assert variant is not None
    return kernel_file.parse(variant.source).defaults()


def test_redirects_name_variants_and_parameters() -> None:
    variants = propose(*graph("aten.softmax", -1), "softmax")
    naive, shuffle, registers, tuned = variants
    for words, expected in [
        ("back to naive", naive), ("Please use warp shuffles", shuffle), ("128-bit loads", registers),
        ("keep the row in registers", registers), ("vectorized", registers), ("the tuned one", tuned),
    ]:  # fmt: skip
        assert redirect(words, variants) == expected, words
    assert defaults(redirect("use 512 threads", variants, naive.source)) == {"BLOCK": 512}
    assert defaults(redirect("BLOCK=128", variants, shuffle.source)) == {"BLOCK": 128}
    assert defaults(redirect("fewer registers", variants, registers.source)) == {"BLOCK": 256, "ITEMS": 2}
    assert defaults(redirect("vectorised loads with 1024 threads and ITEMS = 1", variants)) == {
        "BLOCK": 1024,
        "ITEMS": 1,
    }
    changed = redirect("512 threads", variants, shuffle.source)
    assert changed is not None
    assert changed.name == "shuffle, BLOCK = 512"
    assert kernel_file.parse(changed.source).idea == changed.idea
    for words in ("make it purple", "", "tensor cores", "use TMA"):
        assert redirect(words, variants, naive.source) is None, words


def test_redirects_of_products() -> None:
    variants = propose(*graph("aten.mm", Ref("x")), "matmul")
    larger = redirect("a larger tile", variants, variants[2].source)
    assert (defaults(larger)["BM"], defaults(larger)["BN"]) == (128, 256)
    assert redirect("double buffering", variants) == variants[2]
    assert redirect("stage through shared memory", variants) == variants[1]
    for words in ("3xTF32", "on tensor cores", "mma", "the fastest one"):
        assert redirect(words, variants) == variants[3], words


def request(
    attempts: tuple[Attempt, ...] = (), instruction: str = "", base: Candidate | None = None, op: str = "aten.relu"
) -> ProposalRequest:
    traced, signature = graph(op)
    about = Problem("relu", "relu", "", "test", ())
    return ProposalRequest(about, signature, traced, DEVICE, base, attempts, instruction=instruction)


def test_the_proposer_walks_the_menu_and_ends() -> None:
    proposer, attempts, ideas = PlaybookProposer(), [], []
    while isinstance(answer := proposer.respond(request(tuple(attempts))), Proposal):
        ideas.append(answer.idea)
        key = Candidate(answer.source, answer.author).key
        attempts.append(Attempt(len(ideas), answer.idea, key, Status.PASSED, "promoted"))
        assert answer.author is Author.PLAYBOOK
        assert "naive -> vectorised -> tuned" in answer.plan
    assert [idea.split(",")[0] for idea in ideas] == [
        "one thread",
        "128-bit loads and stores",
        "several 128-bit vectors in flight a thread",
    ]
    assert isinstance(answer, Finished)
    assert "all 3 kernels" in answer.reason


def test_a_redirect_changes_the_next_source_or_is_declined() -> None:
    proposer = PlaybookProposer()
    first = proposer.respond(request())
    assert isinstance(first, Proposal)
    base = Candidate(first.source, first.author)
    redirected = proposer.respond(request(instruction="use 512 threads", base=base))
    assert isinstance(redirected, Proposal)
    assert "BLOCK = 512" in redirected.source
    declined = proposer.respond(request(instruction="sing", base=base))
    assert isinstance(declined, Declined)
    assert "does not know what 'sing' means; say one of naive, vectorised, tuned" in declined.reason
    for words in ("sing a song " * 90, "sing" * 250):
        declined = proposer.respond(request(instruction=words, base=base))
        assert isinstance(declined, Declined)
        assert declined.reason.index(" …' means; say one of") < 130, "what it knows is not behind the whole text"
    same = proposer.respond(request(instruction="naive", base=base))
    assert isinstance(same, Declined)
    tuned = proposer.respond(request(instruction="tuned", base=base))
    assert isinstance(tuned, Proposal)
    tunable = Candidate(tuned.source, tuned.author)
    assert isinstance(proposer.respond(request(instruction="sweep the parameters", base=tunable)), WantsStudy)
    early = proposer.respond(request(instruction="sweep the parameters"))
    assert isinstance(early, Declined)
    assert "no kernel has passed" in early.reason
    nothing = proposer.respond(request(instruction="sweep the parameters", base=base))
    assert isinstance(nothing, Declined)
    assert "nothing to sweep" in nothing.reason
    unknown = proposer.respond(request(op="aten.mode"))
    assert isinstance(unknown, Finished)
    assert "not in the playbook" in unknown.reason
