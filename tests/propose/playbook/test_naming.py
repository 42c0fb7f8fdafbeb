"""Names of a playbook's kernel: whatever a reference's tensors are called, no word of the code gets another meaning."""

from __future__ import annotations

import keyword
import re
import shutil
from collections import Counter
from pathlib import Path

import jinja2
import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.expressions import FUNCTIONS
from cutegen_core.kernel.plan_records import DEVICE_NAMES
from cutegen_core.machine.device import KNOWN
from cutegen_core.propose import playbook
from cutegen_core.propose.playbook import Target, propose, writing
from cutegen_core.propose.playbook.naming import Naming, Words, words_of
from cutegen_core.records.graph import Graph, Node, Ref
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

OUT = TensorSpec("out", "float32", (96, 96), TensorRole.OUTPUT)
TARGET = Target(KNOWN["sm_90a"], ("fast_math", "tf32"))
OPERATIONS = {
    "aten.add": (Ref("{b}"),), "aten.mm": (Ref("{b}"),), "aten.softmax": (-1,), "aten.cumsum": (-1,),
    "aten.logsumexp": ((-1,), True),
}  # fmt: skip


CHOSEN = re.compile(r"one_|two_|^[mgrs]Out$", re.IGNORECASE)
"""Names that make way for one another."""
NEVER = {"out", *FUNCTIONS, *DEVICE_NAMES}
"""Names that no input has in a plan."""


def named(operation: str, first: str, second: str) -> tuple[Graph, Signature]:
    """Return a reference of two squares: an operation on the first, or on both, and their sum with the second."""
    arguments = tuple(Ref(second) if isinstance(one, Ref) else one for one in OPERATIONS[operation])
    width = 1 if operation == "aten.logsumexp" else 96
    nodes = (
        Node(first, "input", (), {}, (96, 96), "float32"),
        Node(second, "input", (), {}, (96, 96), "float32"),
        Node("_y", operation, (Ref(first), *arguments), {}, (96, width), "float32"),
        Node("_z", "aten.add", (Ref("_y"), Ref(second)), {}, (96, 96), "float32"),
    )
    inputs = tuple(TensorSpec(name, "float32", (96, 96)) for name in (first, second))
    return Graph(nodes, ("_z",)), Signature(inputs, (OUT,))


def code_of(source: str) -> Counter[str]:
    """Return how often each word is in a file's code, but for comments, members and the plan's numbers."""
    plan, code = source.split("*/", 1)
    numbers = set(re.findall(r"^(\w+) = ", plan, re.MULTILINE))
    words = re.findall(r"(?<![\w.])[A-Za-z_]\w*", re.sub(r"//.*|^#.*|^using namespace.*", "", code, flags=re.MULTILINE))
    return Counter(word for word in words if word not in numbers)


@pytest.mark.parametrize(
    "operation", [pytest.param(o, marks=() if o == "aten.softmax" else pytest.mark.thorough) for o in OPERATIONS]
)
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_a_tensor_gets_no_name_that_the_code_uses_otherwise(
    operation: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every word of a kernel, or one in four, is tried as the name of a tensor; it is as often in the code as without.

    The helpers are left out: they are functions of their own, in which no tensor of the kernel has a name.
    """
    monkeypatch.setattr(writing, "_helpers", lambda code: "")
    plain = {v.name: code_of(v.source) for v in propose(*named(operation, "one_", "two_"), "case", TARGET)}
    words = {word for code in plain.values() for word in code if not CHOSEN.search(word)}
    words = {word for word in words - NEVER if not keyword.iskeyword(word)}
    assert len(words) > 30
    for word in sorted(words)[::step]:
        for variant in propose(*named(operation, word, "two_"), "case", TARGET):
            kernel_file.parse(variant.source)
            expected = plain[variant.name][word]
            assert expected in (0, code_of(variant.source)[word]), f"{variant.name}: {word}"


def test_a_new_variable_of_a_template_needs_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "templates"
    shutil.copytree(Path(playbook.__file__).parent / "templates", folder)
    place = folder / "elementwise_naive.cu.j2"
    place.write_text(re.sub(r"\{\n", "{\n  int const zebra = 7;\n", place.read_text(), count=1))
    loaded = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    before = propose(*named("aten.add", "zebra", "b"), "case")[0].source
    monkeypatch.setattr(writing, "_templates", lambda: loaded)
    after = propose(*named("aten.add", "zebra", "b"), "case")[0].source
    assert "float const* zebra," in before
    assert "float const* zebra_," in after
    assert 'args = ["zebra", "b"' in after


def test_words_of_cpp_are_no_names() -> None:
    source = propose(*named("aten.add", "register", "signed"), "case")[0].source
    assert "float const* register_, float const* signed_" in source


def test_a_changed_name_is_not_that_of_another_tensor() -> None:
    naming = Naming({"row", "row_"}, Words(frozenset({"row"})))
    assert naming.tensor("row_") == "row_"
    assert naming.tensor("row") == "row__"
    naming = Naming({"A", "mA"}, Words(frozenset({"gB"}), frozenset("mg")))
    assert naming.view("A", set()) == "A2"
    assert naming.view("b", set()) == "B2"


def test_what_code_uses() -> None:
    code = 'int a = b->c + d.e; // f\n/* g\n h */ i("j");\n'
    assert words_of([code]).used == {"int", "a", "b", "d", "i"}
    naming = Naming(set(), words=None)
    marked = f"float* {naming.tensor('x')}; long {naming.let('rows', 'x.numel')}; Tensor m{naming.view('x', ())};"
    assert words_of([marked]) == Words(frozenset({"float", "long", "Tensor"}), frozenset("m"))


def test_kernels_with_unlucky_names_are_right(shared: SharedTools, tmp_path: Path) -> None:
    """Words of C++, of CuTe, of templates and of the views of another tensor."""
    case = problem(
        "torch.amax(row * new + size + mRow, -1)", {"R": 4, "C": 64}, {"R": 3, "C": 37},
        row="torch.randn(R, C)", new="torch.randn(C)", size="torch.randn(C)", mRow="torch.randn(C)",
    )  # fmt: skip
    assert_right(case, variants_of(case, shared, tmp_path)[1:2], case.workloads, shared, tmp_path)


def test_sizes_of_pooled_and_enlarged_images_are_made_of_one_another(shared: SharedTools, tmp_path: Path) -> None:
    """Rounded up, each size has the one before it twice: written out, those of a few steps do not fit into a plan."""
    pool = "F.max_pool2d({} + 1, 2, ceil_mode=True)"
    steps = [f"p{k + 1} := {pool.format(f'p{k}')}" for k in range(4)]
    steps += [f"u := torch.cat((F.interpolate({above}, scale_factor=2.0), p{k}), 1)"
              for above, k in (("p4", 3), ("u", 2), ("u", 1), ("u", 0))]  # fmt: skip
    forward = f"(p0 := x[:, None], {', '.join(steps)})[-1]"
    one = problem(forward, {"R": 2, "C": 64}, {"R": 1, "C": 16}, x="torch.randn(R, C, C)")
    last = variants_of(one, shared, tmp_path)[-1]
    sizes = kernel_file.parse(last.source)
    assert sizes.plan(shared.reference(one, tmp_path).signature(one.workloads[1]), KNOWN["sm_90a"], sizes.defaults())
