"""The layouts page: a kernel's layouts, an expression of one's own, and what cannot be drawn."""

from __future__ import annotations

from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.pages.conftest import OpenPage, shown
from tests.pages.stories import HOSTILE, KERNEL, Story

texts = Later("pages.components.shared.texts")

SWIZZLED = "composition(Swizzle<3, 3, 3>{}, make_layout(make_shape(_8{}, _64{}), LayoutRight{}))"
WITH_LAYOUT = KERNEL.replace("  float largest", f"  auto tile = {SWIZZLED};\n  float largest")


def _session(store: Store, source: str) -> str:
    story = Story(store).begin()
    story.promote(
        story.propose(source.replace(SWIZZLED, "make_layout(make_shape(_8{}, _64{}), LayoutRight{})"), "rows")
    )
    story.propose(source, "swizzled")
    return story.session


def test_a_kernels_layout_beside_the_parents(store: Store, open_page: OpenPage) -> None:
    page = open_page("layouts", id=_session(store, WITH_LAYOUT), step=2)
    text = shown(page)
    assert "✗ 2-way bank conflict: a warp down a column, 4 elements per thread" in text
    assert "✗ 8-way bank conflict: a warp down a column, 4 elements per thread" in text
    assert "(1, 0): offset 72, bank 8" in text
    assert "tile (parent)" in text
    assert page.radio(key="layout-name").options == [texts.plain_label("tile, line 37")]


def test_declarations_of_one_name_are_each_drawn(store: Store, open_page: OpenPage) -> None:
    """An address with the name alone, as it was once written, leads to the first one."""
    rows = "make_layout(make_shape(_4{}, _4{}))"
    session = _session(store, WITH_LAYOUT.replace("  __shared__", f"  auto tile = {rows};\n  __shared__"))
    page = open_page("layouts", id=session, step=2, name="tile")
    first, second = "tile, line 23", "tile, line 38"
    assert page.radio(key="layout-name").value == first
    assert "16 offsets of 16" in shown(page)
    page.radio(key="layout-name").set_value(second).run()
    assert page.radio(key="layout-name").value == second
    assert page.query_params["name"] == second
    assert "512 offsets of 512" in shown(page)
    assert "tile (parent)" in shown(page)
    again = open_page("layouts", id=session, step=2, name=second)
    assert again.radio(key="layout-name").value == second
    page = open_page("layouts", id=session, step=2, name="gone, line 3")
    assert "This kernel declares no “gone, line 3”; showing the first declaration." in shown(page)


def test_a_plan_that_cannot_be_read_is_said(store: Store, open_page: OpenPage) -> None:
    session = _session(store, WITH_LAYOUT.replace("[[launch]]", "[[lunch]]"))
    text = shown(open_page("layouts", id=session, step=2))
    assert "its launch plan cannot be read" in text
    assert "lunch" in text
    assert "declares no layout" not in text


def test_an_expression_of_ones_own(store: Store, open_page: OpenPage) -> None:
    page = open_page("layouts")
    assert "512 offsets of 512" in shown(page)
    page.text_area(key="layout-typed").input("make_layout(make_shape(n, _8{}))")
    page.button(key="layout-evaluate").click().run()
    assert "n is known only at run time" in shown(page)


def test_a_kernel_without_layouts_and_markup(store: Store, open_page: OpenPage) -> None:
    page = open_page("layouts", id=_session(store, KERNEL + f"// {HOSTILE}\n"), step=2)
    assert "declares no layout" in shown(page)
    page.text_area(key="layout-typed").input(HOSTILE + ";")
    page.button(key="layout-evaluate").click().run()
    assert "<img" not in shown(page)
