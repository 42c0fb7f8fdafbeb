"""Make `assets/tour.webp`, a session from start to accepted in a minute: `python -m docs.tour`.

It drives the served application by keyboard and mouse, through a session that really runs on the emulator and one
recorded on an H200. It takes a frame only when the page shows what the caption says, and fails where it does not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from docs.film import HEIGHT, TRIAL_MS, WIDTH, Film
from docs.settle import PATIENCE_MS
from tests.browser.driving import LINE, button_of, press, state_of, stop_of, title_of
from tests.browser.editing import editor_of, open_editor, replace_text, text_of
from tests.serving import ROOT, chromium, own_workspace, served

PORT = 8657
TARGET = ROOT / "assets" / "tour.webp"
LARGEST_BYTES = 3_000_000
SHORTEST_S, LONGEST_S = 55, 65
LOOP = "  for (int j = threadIdx.x; j < cols; j += BLOCK)"
UNROLL = "  #pragma unroll 4\n"
TOO_SHORT = LOOP.replace("j < cols;", "j < cols && j < 3 * BLOCK;")
WISH = "512 threads"


class Tour:
    """The way through the application, a method per chapter."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.film = page, url, Film(page)

    def walk(self) -> None:
        for chapter in (
            self.start, self.first_kernel, self.second_kernel, self.edit, self.repair, self.redirect, self.accept,
            self.recorded, self.present,
        ):  # fmt: skip
            chapter()

    def start(self) -> None:
        shot, start = self.film.take, self.page.get_by_role("button", name="Start", exact=True)
        self.page.goto(self.url)
        shot("The goal: a PyTorch softmax as a CuTe kernel", self._text("System check"), seconds=3)
        self.page.get_by_role("button", name="using a plan").click()
        shot("The playbook writes; I review plans, changes and verdicts", at=start)
        start.click()

    def first_kernel(self) -> None:
        shot = self.film.take
        shot("Step 1: I review the plan", at=self._text("Review the plan"))
        self._key("Approve the plan", "a")
        shot("I review the kernel before it is compiled", at=self._text("Review, then compile"), key="A")
        self._key("Approve the diff", "a")
        running = stop_of(self.page, "TEST").filter(has_text="running")
        shot("Compiled by NVRTC, tested on the CPU emulator", at=running, key="A", seconds=2, rests=False)
        shot(
            "Right at every size; no race, no access out of bounds", self._text("Review the verdict"),
            self._text("runs correct on"), at=stop_of(self.page, "TEST").filter(has_text="passed"),
        )  # fmt: skip
        self._key("Promote", "a")

    def second_kernel(self) -> None:
        self._key("Approve the plan", "a")
        split = self.page.get_by_role("radio", name="split")
        expect(title_of(self.page)).to_contain_text("Step 2")
        split.click()
        shown = self._text("Review, then compile")
        self.film.take(
            "Promoted. The next idea: one block a row, warp shuffles", shown, at=title_of(self.page), key="A"
        )
        self._key("Approve the diff", "a")
        expect(self._text("Review the verdict")).to_be_visible(timeout=TRIAL_MS)

    def edit(self) -> None:
        shot = self.film.take
        open_editor(self.page)
        replace_text(self.page, edited(text_of(self.page)))
        shot(
            "By hand: an unrolled loop, and a bound I think is right",
            at=self.page.locator(".cg-editor"),
            key="E",
            seconds=3,
        )
        editor_of(self.page).press("Control+Enter")
        wrong = self.page.locator(".cg-note.cg-error", has_text="incorrect numerical")
        shot("It is wrong: at which size, where, and by how much", at=wrong, key="Ctrl+Enter", seconds=3)
        heat = self.page.locator(".st-key-evidence-body .js-plotly-plot")
        shot("In this pattern: nothing is written beyond the third block", at=heat, seconds=3)

    def repair(self) -> None:
        shot = self.film.take
        self._key("Keep hunks", "k")
        expect(button_of(self.page, "✓ kept · hunk 2")).to_be_visible()
        self.page.keyboard.press("2")
        dropped = button_of(self.page, "✗ dropped · hunk 2")
        shot("Fixed hunk by hunk: the unrolling stays, the bound goes", at=dropped, key="K  2", seconds=3)
        self._key("Keep 1 of 2 hunks", "k")
        passed = stop_of(self.page, "TEST").filter(has_text="passed")
        shot("The kept hunks make a new kernel, and it is right", self._text("runs correct on"), at=passed, key="K")
        self._key("Promote", "a")

    def redirect(self) -> None:
        shot, line = self.film.take, self.page.get_by_placeholder(LINE)
        expect(self._text("Review the plan")).to_be_visible(timeout=TRIAL_MS)
        line.fill(WISH)
        shot("The next plan is not what I want, so I redirect", at=line)
        line.press("Enter")
        asked = title_of(self.page).filter(has_text=f"instruction: “{WISH}”")
        self._key("Approve the plan", "a", see=asked)
        shot("The change I asked for", self._text("Review, then compile"), at=asked, key="A")
        self._key("Approve the diff", "a")
        passed = stop_of(self.page, "TEST").filter(has_text="passed")
        shot("Right again; I review the verdict, too", passed, at=button_of(self.page, "Promote"), key="A")
        self._key("Promote", "a")

    def accept(self) -> None:
        shot = self.film.take
        shot("The playbook has no more ideas; I accept the best", at=self._text("The proposer needs an instruction"))
        self._key("Accept", "f")
        accepted = state_of(self.page).filter(has_text="accepted")
        shot("Tested once more with fresh inputs: accepted", at=accepted, key="F", seconds=3)

    def recorded(self) -> None:
        shot, page = self.film.take, self.page
        page.goto(self.url)
        opened = page.get_by_role("button", name="recorded on NVIDIA H200")
        shot("On a GPU kernels are timed, too. A session recorded on an H200", at=opened)
        opened.click()
        timing = page.get_by_role("radio", name="timing")
        timing.click()
        evidence = page.locator(".st-key-evidence-body .js-plotly-plot")
        shot(
            "Faster or not: every sample, and the interval",
            page.get_by_text("faster than").first,
            at=evidence,
            seconds=3,
        )
        page.get_by_role("radio", name="roofline").click()
        bound = page.locator(".st-key-evidence-body").get_by_text("of the memory bound")
        shot("How much is left, under peaks measured on the device", bound, at=evidence, seconds=3)

    def present(self) -> None:
        shot, page = self.film.take, self.page
        page.get_by_role("link", name="Present").click()
        page.get_by_role("button", name="imported from").click()
        title = page.locator(".pr-slide .pr-head h2")
        shot("Present shows a session to others, by arrow keys", at=title.filter(has_text="Softmax"))
        for number in (1, 2, 3):
            page.keyboard.press("ArrowRight")
            expect(title).to_contain_text(f"Step {number}")
        shot("Each step: the idea, the change, the verdict", at=title, key="Right")
        page.keyboard.press("End")
        shot(
            "And the result, tested again with fresh inputs",
            at=title.filter(has_text="Result"),
            key="End",
            seconds=4,
        )

    def _text(self, text: str) -> Locator:
        return self.page.get_by_text(text)

    def _key(self, label: str, key: str, see: Locator | None = None) -> None:
        """Decide by key, once the button can be pressed."""
        if see is not None:
            expect(see).to_be_visible(timeout=TRIAL_MS)
        expect(button_of(self.page, label)).to_be_enabled(timeout=TRIAL_MS)
        press(self.page, label, key, by="key")


def edited(text: str) -> str:
    """Unroll the second loop over a row, and cut the third one short."""
    maximum, total, quotient, rest = text.split(LOOP)
    return f"{maximum}{LOOP}{total}{UNROLL}{LOOP}{quotient}{TOO_SHORT}{rest}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=TARGET)
    output: Path = parser.parse_args().output
    with own_workspace() as home, served(home, PORT) as server, chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark")
        page.set_default_timeout(PATIENCE_MS)
        tour = Tour(page, server.url)
        tour.walk()
    if not SHORTEST_S <= tour.film.seconds <= LONGEST_S:
        raise SystemExit(f"the tour takes {tour.film.seconds:.0f} s")
    tour.film.write(output)
    size = output.stat().st_size
    print(f"{output}: {tour.film.seconds:.0f} s, {size // 1000} KB")
    return int(size > LARGEST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
