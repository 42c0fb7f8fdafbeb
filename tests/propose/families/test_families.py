"""Families of problems: which one a graph belongs to, what a registration may say, and adding one as anybody would."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import cutegen_core
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.families.family import FOLDER, load, registered
from cutegen_core.records.errors import UsageError
from tests.evaluate.roofline.test_bounds import TWO, forward, traced
from tests.places import ROOT

KERNELS = ROOT / "tests" / "data" / "kernels"
PRODUCT = {**TWO, "i": "torch.randint(0, n, (16,))", "v": "torch.rand(16, n)"}
IMAGE = {"x": "torch.rand(4, 8, 32, 32)", "m": "torch.rand(8)", "s": "torch.rand(8)"}


# -- where modules disagreed, or took what they did not know for pointwise ---------------------------------------------


@pytest.mark.parametrize(
    ("body", "inputs", "name"),
    [
        # two tensors' maximum is pointwise, a row's is a reduction
        ("torch.max(a, b)", TWO, "elementwise"),
        ("torch.max(a, 1)[0]", TWO, "reduction"),
        ("torch.min(a @ b, torch.tensor(0.5)) - 1", TWO, "gemm"),
        # Tensor.unfold is a view, F.unfold makes windows
        ("a.unfold(1, 3, 1) * 2", TWO, "elementwise"),
        ("F.unfold(x, 3)", IMAGE, "convolution and pooling"),
        ("F.max_pool2d(x, 2, return_indices=True)[0]", IMAGE, "convolution and pooling"),
        ("F.adaptive_max_pool1d(a[None], 2)", TWO, "convolution and pooling"),
        # in place is the same operation
        ("torch.zeros(n, n).index_add_(0, i, v)", PRODUCT, "gather and segment"),
        ("a.clone().cumsum_(1)", TWO, "scan"),
        ("torch.relu_(a.clone()).unsqueeze_(0)", TWO, "elementwise"),
        # a norm reduces over the batch in training and scales channels outside
        ("F.batch_norm(x, m, s, training=True)", IMAGE, "reduction"),
        ("F.batch_norm(x, m, s)", IMAGE, "elementwise"),
        ("F.mse_loss(a, b)", TWO, "reduction"),
        ("F.mse_loss(a, b, reduction='none')", TWO, "elementwise"),
        ("F.nll_loss(a[:16], i)", PRODUCT, "reduction"),
        ("torch.std_mean(a, 1)[0]", TWO, "reduction"),
        # every element with every element is no product of matrices, distances are one
        ("torch.outer(a[0], b[0])", TWO, "elementwise"),
        ("torch.cdist(a, b)", TWO, "gemm"),
        ("torch.inner(a, b)", TWO, "gemm"),
        # dropout that is off is nothing in a chain
        ("F.dropout(torch.relu(a @ b) * 2, 0.5, False)", TWO, "gemm"),
        # the heaviest operation decides, however long the chain
        ("torch.tanh(torch.relu(a @ b) * 2)", TWO, "gemm"),
        ("torch.softmax(a @ b, 1)", TWO, "gemm"),
        ("torch.softmax(a @ b, 1) @ b", TWO, "softmax and attention"),
        ("F.instance_norm(F.conv2d(x, torch.rand(4, 8, 3, 3))) / 2", IMAGE, "convolution and pooling"),
        ("torch.cumsum(a, 1).sum(1)", TWO, "fused chain"),
        # heavy, and nobody's
        ("torch.sort(a, 1)[0]", TWO, "other"),
        ("a.topk(3)[0]", TWO, "other"),
        ("torch.linalg.inv(a)", TWO, "other"),
        ("torch.linalg.inv(a) @ b", TWO, "fused chain"),
    ],
)
def test_the_class_follows_what_the_operations_do(body, inputs, name):
    graph, _ = traced(forward(body, inputs))
    assert classify(graph).name == name


# -- what a registration may say ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "families", ignore=shutil.ignore_patterns("*.py", "__pycache__"))


GOOD = """name = "sorting"
bound = "bytes"
flows = ["sort"]

[[menu]]
key = "bitonic"
kind = "structure"
text = "A bitonic network over a row in shared memory, one comparison a thread and step."
"""


def test_what_is_in_the_package_is_what_a_folder_has(folder):
    assert load(folder) == registered()


def test_a_new_folder_is_a_new_family_for_graphs_of_its_flow(folder):
    (folder / "sorting").mkdir()
    (folder / "sorting" / "family.toml").write_text(GOOD)
    graph, _ = traced(forward("torch.sort(a, 1)[0]", TWO))
    assert classify(graph, load(folder)).name == "sorting"
    (folder / "sorting" / "family.toml").write_text(GOOD.replace('flows = ["sort"]', 'operations = ["topk", "cumsum"]'))
    families = load(folder)
    graph, _ = traced(forward("torch.cumsum(a, 1)", TWO))
    assert classify(graph, families).name == "sorting", "a named operation goes before a flow"
    graph, _ = traced(forward("torch.cumprod(a, 1)", TWO))
    assert classify(graph, families).name == "scan"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('["sort"]', '["sorts"]', r"flows\.0: Input should be 'input', "),
        ('["sort"]', '["scan"]', r"scan is claimed by .*/(scan|sorting)/family\.toml, too\."),
        ('flows = ["sort"]', 'operations = ["sorted"]', "'sorted' is no operation of the table"),
        ('flows = ["sort"]', "", "it claims nothing: give it flows, operations or otherwise"),
        ('"sorting"', '"scan"', r"scan is claimed by .*/(scan|sorting)/family\.toml, too\."),
        ('flows = ["sort"]', 'otherwise = "several"', r"several is claimed by .*/(fused|sorting)/family\.toml, too\."),
        ('bound = "bytes"\n', "", "bound: Field required"),
        ('"structure"', '"structural"', r"menu\.0\.kind: Input should be 'structure' or 'parameter'"),
        ('bound = "bytes"', 'bound = "bytes"\nexemplar = "x"', r"exemplar: it is the file exemplar\.cu next to"),
        ('bound = "bytes"', 'bound = "bytes"\nexemplar_solves = "relu"', r"exemplar_solves names the problem"),
        (
            'bound = "bytes"',
            'bound = "bytes"\nexemplar_of = "gem"',
            "exemplar_of names 'gem', which is no other family",
        ),
        ('bound = "bytes"', 'bound = "bytes"\nbeside = ["gem"]', "beside names 'gem', which is no other family"),
        ('bound = "bytes"', 'bound = "bytes"\nfuse = true', "fuse: Unexpected keyword argument"),
        ("[[menu]]", "[[menu]", "Expected"),
        ('kind = "structure"', 'kind = "structure"\nneeds = ["halfs"]', "'halfs' is no trait of a problem"),
    ],
)
def test_a_wrong_registration_is_refused_with_its_file(folder, old, new, words):
    (folder / "sorting").mkdir()
    (folder / "sorting" / "family.toml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=words) as caught:
        load(folder)
    assert "sorting/family.toml" in str(caught.value) or "/scan/family.toml" in str(caught.value)


def test_somebody_must_take_the_rest(folder):
    shutil.rmtree(folder / "other")
    with pytest.raises(UsageError, match="no family has otherwise = 'unclaimed'"):
        load(folder)


# -- adding one --------------------------------------------------------------------------------------------------------

SEEN = """
import json
from dataclasses import replace
from cutegen_core.judge.reference_process import tracing, worker
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.propose.cutegen import prompting
from cutegen_core.propose.prompting.rendering import EXAMPLE
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.records.candidate import Author, Candidate

problem = library.load("sort_rows")
graph, signature = tracing.trace(problem.source, "here"), worker.trace_signature(problem.source, "here")
request = ProposalRequest(problem, signature, graph, choose_device("sm_90a"), None)
base = Candidate(EXAMPLE.read_text(), Author.MODEL)
prompts = {"seed": prompting.seed(request), "optimise": prompting.optimise(replace(request, base=base))}
print(json.dumps({"class": classify(graph).name, **{name: prompt.text for name, prompt in prompts.items()}}))
"""


@pytest.mark.thorough
def test_a_family_is_a_problem_a_registration_and_an_exemplar(tmp_path):
    """Three new files and no other: the problem is listed, its class is found, its menu and exemplar are in prompts."""
    package = tmp_path / "cutegen_core"
    shutil.copytree(os.path.dirname(cutegen_core.__file__), package, ignore=shutil.ignore_patterns("__pycache__"))
    problems, family = package / "problems" / "catalogue" / "sorting", package / "propose" / "families" / "sorting"
    problems.mkdir()
    family.mkdir()
    shutil.copy(KERNELS / "sort_rows.py", problems)
    shutil.copy(KERNELS / "sort_rows.cu", family / "exemplar.cu")
    (family / "family.toml").write_text(GOOD.replace("\n\n", '\nexemplar_solves = "sort_rows"\n\n', 1))

    def ran(*command):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "CUTEGEN_HOME": str(tmp_path / "home")}
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = ran("-c", "import sys; from cutegen_core.cli import main; sys.exit(main(['problems']))")
    assert "sort_rows" in listed
    assert "Rows of 256 sorted upwards" in listed
    seen = json.loads(ran("-c", SEEN))
    assert seen["class"] == "sorting"
    for prompt in (seen["seed"], seen["optimise"]):
        assert "class: sorting" in prompt
        assert (KERNELS / "sort_rows.cu").read_text().strip() in prompt
    assert "- bitonic (structure): A bitonic network over a row" in seen["optimise"]
