"""An edit is named by what it changed, and a launch plan's change is said in a line."""

from __future__ import annotations

import pytest

from cutegen_core.kernel.edit_words import say_edit
from cutegen_core.kernel.plan_words import plan_lines, say_plan, say_plan_change
from tests.places import DATA

KERNEL = (DATA / "relu.cu").read_text()
LOOP = "/* cutegen\n*/\nvoid f(float* x, int n) {\n  for (int j = 0; j < n; ++j)\n    x[j] = 2.0f;\n  sync();\n}\n"


def two_launches(source: str) -> str:
    """Return the file with a second kernel and its launch."""
    plan, _, code = source.partition("*/\n")
    launch, kernel = plan[plan.index("[[launch]]") :], code[code.index("template") :]
    return f"{plan}\n{launch.replace('relu<', 'large<')}*/\n{code}{kernel.replace('void relu(', 'void large(')}"


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("j < n", "j <= n", "j < n → j <= n, line 4"),
        ("2.0f", "3.0f", "x[j] = 2.0f → x[j] = 3.0f, line 5"),
        ("int j = 0", "int j = 1", "j = 0 → j = 1, line 4"),
        ("float* x", "float* __restrict__ x", "float* → float* __restrict__, line 3"),
        ("  sync();\n", "", "− sync();, line 6"),
        ("  sync();\n", "  sync();\n  again();\n", "+ again();, line 7"),
        ("x[j]", "y[j]", "x → y, line 5"),
        ("sync();", "sync( );", "sync( );, line 6"),
    ],
)
def test_a_changed_line_is_named_by_the_words_that_differ(old: str, new: str, named: str) -> None:
    assert say_edit(LOOP, LOOP.replace(old, new)) == named


def test_equal_changes_are_one_and_others_are_counted() -> None:
    twice = LOOP + LOOP.partition("*/\n")[2].replace("void f", "void g")
    changed = twice.replace("j < n", "j <= n")
    assert say_edit(twice, changed) == "j < n → j <= n, lines 4, 9"
    assert say_edit(twice, changed.replace("2.0f", "3.0f")).endswith("lines 4, 9, and 1 more")


def test_a_text_is_named_as_a_whole_where_most_of_it_changed() -> None:
    assert say_edit(KERNEL, "// nothing\n" * 30) == "written anew: 30 lines"
    assert say_edit("", "no kernel at all\n") == "+ no kernel at all, line 1"
    assert say_edit(KERNEL, KERNEL) == "same text again"
    assert len(say_edit(LOOP, LOOP.replace("sync();", "sync(" + "x + " * 90 + "1);"))) < 100


def test_a_new_idea_and_a_new_plan_name_the_edit_themselves() -> None:
    with_idea = KERNEL.replace('idea = "', 'idea = "unrolled ')
    assert say_edit(KERNEL, with_idea).startswith("unrolled ")
    wider = KERNEL.replace("default = 256", "default = 512")
    assert wider != KERNEL
    assert say_edit(KERNEL, wider) == "block 256 → 512"


def test_a_plan_and_its_change_are_said_in_a_line() -> None:
    said = say_plan(KERNEL)
    assert "block 256" in said
    assert "BLOCK 256" in said
    grid = next(line for line in KERNEL.splitlines() if line.startswith("block"))
    shared = KERNEL.replace(grid, f'{grid}\nsmem = "BLOCK * 128"')
    assert say_plan_change(KERNEL, shared) == "shared 0 → 32 KiB"
    assert say_plan_change(shared, KERNEL) == "shared 32 KiB → 0"
    assert say_plan_change(KERNEL, KERNEL + "// more code\n") == ""
    assert say_plan_change(KERNEL, KERNEL.replace("relu", "gelu")).startswith("all launches are new: gelu, grid")
    assert say_plan_change(KERNEL, two_launches(KERNEL)) == "launch of large added"
    assert say_plan_change(KERNEL, KERNEL.replace("block", "blok", 1)).startswith("cannot be read: line")
    assert plan_lines(KERNEL) == line_of(KERNEL, "*/")
    assert (plan_lines("int x;\n/* later */"), plan_lines("")) == (0, 0)


def test_launches_of_one_kernel_are_counted_and_what_they_share_is_said_once() -> None:
    plan, _, code = KERNEL.partition("*/\n")
    launch = plan[plan.index("[[launch]]") :]
    thrice = f"{plan}\n{launch}\n{launch}*/\n{code}"
    assert say_plan(thrice).startswith("3 launches: relu x3, BLOCK 256")
    block = next(line for line in launch.splitlines() if line.startswith("block"))
    shared = f'{block}\nsmem = "BLOCK * 128"'
    assert say_plan_change(thrice, thrice.replace(block, shared)) == "relu: shared 0 → 32 KiB"
    twice = thrice[::-1].replace(block[::-1], shared[::-1], 2)[::-1]
    assert say_plan_change(thrice, twice) == "relu, launches 2 to 3: shared 0 → 32 KiB"
    once = thrice.replace(block, shared, 1)
    assert say_plan_change(thrice, once) == "relu, launch 1: shared 0 → 32 KiB"
    ends = once[::-1].replace(block[::-1], shared[::-1], 1)[::-1]
    assert say_plan_change(thrice, ends) == "relu, launches 1 and 3: shared 0 → 32 KiB"
    assert say_plan_change(KERNEL, thrice) == "2 launches of relu added"
    more = thrice.replace(block, shared)
    assert say_plan_change(KERNEL, more) == "relu: shared 0 → 32 KiB, 2 launches of relu added"


def test_a_plan_that_cannot_be_read_is_named_where_it_begins_and_where_it_ends() -> None:
    broken = KERNEL.replace("[[launch]]", "[[lunch]]")
    assert say_edit(KERNEL, broken).startswith("plan cannot be read: line ")
    assert say_plan_change(broken, KERNEL) == "can be read again"
    assert say_edit(broken, KERNEL) == "plan can be read again"
    assert say_edit(broken, KERNEL.replace("i < n", "i <= n")).startswith("i < n → i <= n, line ")
    assert say_plan_change(broken, broken + "// more code\n") == ""
