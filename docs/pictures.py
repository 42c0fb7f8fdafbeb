"""List the pictures: where each is taken, and which question it answers at a glance."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from playwright.sync_api import Page, expect

from tests.browser.editing import editor_of, open_editor

USUAL, WIDE = (1440, 900), (1920, 1080)


class Picture(NamedTuple):
    """One picture, taken in both themes.

    Attributes:
        address: within the application, with the names of sessions (`shown_sessions.Shown`) in braces.
        answers: the question that it answers at a glance.
        plots: the number of charts to wait for.
        first: called on the page before it is taken.
    """

    name: str
    address: str
    answers: str
    plots: int = 0
    size: tuple[int, int] = USUAL
    first: Callable[[Page], object] | None = None


def edit(page: Page) -> None:
    """Open the editor at the kernel's end. The session keeps the draft, so the editor is open in every later tab."""
    if not editor_of(page).count():
        open_editor(page)
    editor_of(page).press("Control+End")


def lint(page: Page) -> None:
    """Lint the problem, once for both themes."""
    found = page.get_by_role("heading", name=re.compile("^Lint: .* for "))
    if not found.count():
        page.get_by_role("button", name="Lint the problem").click()
    expect(found).to_be_visible(timeout=120_000)
    expect(page.get_by_text("The playbook has")).to_be_visible(timeout=120_000)


PLAYED, TIMED = "/session?id={playbook}", "/session?id={timed}&step=9"

PICTURES: dict[str, tuple[Picture, ...]] = {
    "Start": (
        Picture("start", "/", "What can this machine do, and where was I? Every way in is on one page."),
        Picture(
            "start-roles",
            "/?problem=silu_and_mul&strategy=astra&planning=person",
            "Who answers each role, when four roles make an existing kernel faster?",
        ),
    ),
    "Session": (
        Picture(
            "session",
            PLAYED,
            "Where is it wrong, by how much, in what pattern? An edit that is right for short rows only.",
            plots=1,
        ),
        Picture("session-wide", PLAYED, "The same at 1920 x 1080.", plots=1, size=WIDE),
        Picture(
            "session-split",
            f"{PLAYED}&step=2&view=split",
            "What did this step change? Both sides, changed words marked.",
        ),
        Picture(
            "session-hunks",
            f"{PLAYED}&step=2&view=hunks&drop=3",
            "Which part of a change do I keep? A digit keeps or drops a hunk.",
        ),
        Picture(
            "session-editor",
            "/session?id={product}",
            "What if I change it myself? The bar is the editor's: Ctrl+Enter runs the edit. A draft stays with its "
            "step and survives a reload.",
            first=edit,
        ),
    ),
    "Session: roles": (
        Picture(
            "session-roles",
            "/session?id={roles}",
            "What did each role say, and is the tests' suite to be trusted? A plan waits, after one was sent back.",
            plots=1,
        ),
    ),
    "Session: evidence": (
        Picture(
            "session-race",
            f"{PLAYED}&step=4&view=split&pane=correctness",
            "What was read before it was written, at which line, by which thread? An edit that took a barrier away.",
        ),
        Picture(
            "session-resources",
            f"{PLAYED}&step=2&pane=resources",
            "What did the change cost? Registers, spills, shared memory, occupancy, against the step before.",
        ),
        Picture(
            "session-timing",
            f"{TIMED}&pane=timing",
            "Is it faster, and how sure is that? Every sample, with eager and torch.compile, on an H200.",
            plots=1,
        ),
        Picture(
            "session-roofline",
            f"{TIMED}&pane=roofline",
            "How much is left? The kernel under peaks measured on the device.",
            plots=1,
        ),
        Picture("session-profile", f"{TIMED}&pane=profile", "What do warps wait for, and at which of my lines?"),
        Picture("session-sass", f"{TIMED}&pane=sass", "What became of my line? Its machine code, with the samples."),
        Picture(
            "session-sweep",
            f"{TIMED}&pane=sweep",
            "Which parameters are best? All points timed side by side, the fastest tested.",
        ),
    ),
    "Session: with a language model": (
        Picture(
            "session-prompt", "/session?id={prompt}", "What exactly will the model be told? It can be changed first."
        ),
        Picture(
            "session-diagnosis",
            "/session?id={repair}&step=1",
            "Why did it fail? The evidence, and the model's diagnosis of it.",
        ),
        Picture(
            "session-replies", "/session?id={repair}&pane=prompt&view=split", "What was asked, and what came back?"
        ),
        Picture(
            "session-memory",
            "/session?id={repair}&pane=memory",
            "What else is the model told? Standing instructions, and the outcome of each attempt.",
        ),
    ),
    "Compare": (
        Picture(
            "compare",
            "/compare?a={playbook}.1&b={playbook}.2",
            "What differs between any two kernels? Source, resources and instructions.",
            plots=1,
        ),
        Picture(
            "compare-timed",
            "/compare?a={timed}.3&b={timed}.5",
            "Which of the two is faster, by how much, is that sure, and what explains it?",
            plots=1,
        ),
    ),
    "Present": (
        Picture("present", "/present?id={timed}&step=5", "What happened in this step? For an audience, by arrow keys."),
        Picture("present-result", "/present?id={timed}&step=result", "What is the result, and what does it rest on?"),
    ),
    "Layouts": (
        Picture("layouts", "/layouts", "Where do the banks conflict? Any CuTe layout, drawn as CuTe evaluates it."),
        Picture("layouts-kernel", "/layouts?id={product}", "How do the tiles of this kernel lie in memory?"),
    ),
    "Problems": (
        Picture(
            "problems",
            "/problems?name=softmax",
            "What is the task, at which sizes, how exactly? Would a wrong kernel pass?",
            first=lint,
        ),
        Picture(
            "problems-edit",
            "/problems?name=softmax&edit=1",
            "What if other sizes matter? A form and the text, always in step.",
        ),
    ),
    "Setup": (Picture("setup", "/setup", "What works on this machine, and how do I fix what does not?"),),
}
