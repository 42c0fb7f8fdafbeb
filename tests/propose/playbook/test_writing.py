"""The plan of a kernel file that the playbook writes: every section it can say, and menus of different length."""

from __future__ import annotations

from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import KNOWN
from cutegen_core.propose.playbook import Target, menu, propose
from cutegen_core.propose.playbook.naming import Naming, Words
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, TensorMapText, write_file
from cutegen_core.records.graph import Graph, Node, Ref
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec

SM90 = KNOWN["sm_90a"]
OUT = TensorSpec("out", "float32", (256, 96), TensorRole.OUTPUT)
PLAIN = Signature((TensorSpec("x", "float32", (256, 96)),), (OUT,))
CODE = "__global__ void tiles(const __grid_constant__ CUtensorMap x_map, float* parts, float* out, int n) {}\n"


def test_a_plan_says_everything_that_a_kernel_file_can() -> None:
    naming = Naming(set(), Words())
    rows, span = naming.let("rows", "x.shape[0]"), naming.let("span", "x.shape[1] * 2")
    unused = naming.let("unused", "x.numel")
    piece = RegionText("", CODE)
    block = piece.param("BLOCK", 128, 128, 256)
    piece.where.append(f"{block} * 64 <= smem_max")
    args = ("x_map", "parts", "out", rows)
    piece.launches += [
        LaunchText("tiles", (f"ceil_div({rows}, 64)", "2"), (block,), args, f"{rows} > 64", f"{block} * 64", ("2",)),
        LaunchText("tiles", ("4",), (block,), args, f"{rows} <= 64", cooperative=True),
    ]
    piece.maps.append(
        TensorMapText("x_map", "x", ("32", "8"), ("96", f"{rows} // 2"), (span,), "0", "128B", "256B")
    )  # fmt: skip
    piece.scratch.append(ScratchText("parts", "float32", (rows, "4"), zero=True))
    piece.includes.append("cutlass/arch/barrier.h")
    piece.allow.append("tf32")
    text = write_file("an idea", naming, [piece], [ScratchText("tmp", "float16", ("2",))], ("fast_math",))
    assert unused not in text.split("*/")[0]
    file = kernel_file.parse(text)
    assert "#include <cute/tensor.hpp>\n#include <cutlass/arch/barrier.h>\n" in file.body
    assert file.numerics.allow == ("fast_math", "tf32")
    assert [(b.name, b.zero) for b in file.scratch] == [("tmp", False), ("parts", True)]
    plan = file.plan(PLAIN, SM90)
    (launch,), (made,) = plan.launches, plan.tensor_maps
    assert (launch.grid, launch.block, launch.smem_bytes) == ((4, 2, 1), (128, 1, 1), 128 * 64)
    assert launch.cluster == (2, 1, 1)
    assert (made.dims, made.strides_bytes, made.box, made.swizzle) == ((96, 128), (768,), (32, 8), "128B")
    assert file.launches[1].cooperative


def chain(*operations: str) -> tuple[Graph, Signature]:
    """Return a reference that applies these, one after the other, to a square of 64; a product takes `w` as well."""
    names = [f"y{k}" for k in range(len(operations))]
    nodes = [Node(name, "input", (), {}, (64, 64), "float32") for name in ("x", "w")]
    for name, before, operation in zip(names, ["x", *names], operations, strict=False):
        more = {"mm": (Ref("w"),), "softmax": (-1,)}.get(operation, ())
        nodes.append(Node(name, f"aten.{operation}", (Ref(before), *more), {}, (64, 64), "float32"))
    inputs = tuple(TensorSpec(name, "float32", (64, 64)) for name in ("x", "w"))
    out = TensorSpec("out", "float32", (64, 64), TensorRole.OUTPUT)
    return Graph(tuple(nodes), (names[-1],)), Signature(inputs, (out,))


def test_the_longest_menu_names_the_variants_and_every_region_begins_and_ends_with_its_own() -> None:
    product, rows = chain("mm"), chain("softmax")
    both = chain("mm", "softmax")
    for target in (Target(), Target(SM90), Target(SM90, ("fast_math",))):
        longest = max((menu(*one, target) for one in (product, rows)), key=len)
        variants = propose(*both, "both", target)
        assert len(variants) == len(longest)
        assert [(v.name, v.idea) for v in variants] == list(menu(*both, target))
        assert len({v.source for v in variants}) == len(variants)
        for end in (0, -1):
            for one in (product, rows):
                assert menu(*one, target)[end][1] in variants[end].idea


def test_a_relaxation_is_used_only_where_the_problem_allows_it() -> None:
    assert "fast_math" not in propose(*chain("exp"), "e")[-1].source
    assert 'allow = ["fast_math"]' in propose(*chain("exp"), "e", Target(allow=("fast_math",)))[-1].source
