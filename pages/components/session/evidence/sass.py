"""The SASS pane: the machine code of one kernel, with the lines of the kernel file that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import streamlit as st

from cutegen_core import views
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.records.trial import Occupancy, Resources
from cutegen_core.records.wording import counted
from cutegen_core.views import Instruction, MachineCode, StepView, parse_machine_code
from cutegen_core.views.code_text import highlight
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.profile_pane import heat
from pages.components.shared import charts
from pages.components.shared.code_tables import Heat
from pages.components.shared.texts import escape_html, heading, heard, note, quiet, show_hidden

SHOWN = 3000
HUES = 6
"""Colours of the source lines, taken in turn; neighbours differ."""
_JS = Path(__file__).with_suffix(".js")


@lru_cache(maxsize=1)
def _links() -> Callable[..., Any]:
    return st.components.v2.component("cutegen-sass-links", js=_JS.read_text(encoding="utf-8"))


def render_sass(given: PaneInput) -> None:
    """Draw the choice of the kernel and the search, then the instructions with the profiler's samples."""
    store, shown, resources = given.store, given.tried, given.trial.resources
    samples = heat(views.profile_view(store, given.view.state, shown.step).profile)
    if resources is None or not resources.sass:
        note("info", "No machine code: this kernel was not compiled, or its code was not kept.")
        return
    kernels = launched_first(resources, parse_machine_code(store.text(resources.sass)))
    if not kernels:
        note("info", "The disassembly has no kernel in it.")
        return
    code, word, grouped = _choose(shown, kernels)
    mix = next((k.instruction_mix for k in resources.kernels if demangle(code.mangled) == k.signature), {})
    rows = [row for row in code.instructions if row.address]
    ours = sum(1 for row in rows if row.line)
    heading(f"{len(rows)} instructions, {ours} with a line of this file · {resources.arch}")
    if mix and st.toggle("Instruction mix", key="sass-mix"):
        heard(charts.mix_words({"this": dict(mix)}))
        st.plotly_chart(charts.mix_bars({"this": dict(mix)}), key="sass-mix-bars", config={"displayModeBar": False})
    found = [row for row in code.instructions if _matches(row, word)] if word else list(code.instructions)
    if word:
        quiet(f"{sum(1 for row in found if row.address)} instructions match “{word}”.")
    if len(found) > SHOWN:
        quiet(f"The first {SHOWN} of {len(found)} rows; search to see the others.")
    hues = {line: i % HUES for i, line in enumerate(sorted({row.line for row in rows if row.line}))}
    with st.container(key="sass-pane"):
        st.html(_html(found[:SHOWN], shown.source, samples, hues, by_line=grouped))
    if given.tried is given.shown:
        st.html(f"<style>{_tints(hues)}</style>")
        _links()(key="sass-links")
    quiet(
        "A line of the source and its instructions have one colour: point at one to see the others, click to go there. "
        "Counts are static: an instruction in a loop counts once. A grey place is the header the line came through."
    )


def launched_first(resources: Resources, found: Sequence[MachineCode]) -> dict[str, MachineCode]:
    """Return the kernels by label: first those with the largest launches, last those that no workload launches."""
    signatures = {kernel.kernel: kernel.signature for kernel in resources.kernels}
    largest: dict[str, Occupancy] = {}
    for row in sorted(resources.occupancy, key=lambda row: -row.waves):
        largest.setdefault(signatures.get(row.kernel, ""), row)
    named = {demangle(code.mangled): code for code in found}
    order = sorted(named, key=lambda name: -largest[name].waves if name in largest else 1.0)
    return {_label(name, largest.get(name)): named[name] for name in order}


def _label(signature: str, launch: Occupancy | None) -> str:
    where = f"workload {launch.workload}, {launch.waves:.2g} waves" if launch else "not launched"
    return f"{signature} · {where}"


def _tints(hues: Mapping[int, int]) -> str:
    """Write the style that gives the lines of the source the colours of their instructions."""
    return "".join(
        f"{','.join(f'#L{line},#L{line}~td:not(.cg-heat)' for line, own in hues.items() if own == hue)}"
        f"{{background:var(--cg-hue-{hue})}}"
        for hue in dict.fromkeys(hues.values())
    )


def _choose(shown: StepView, kernels: dict[str, MachineCode]) -> tuple[MachineCode, str, bool]:
    names = list(kernels)
    number = shown.step.number
    name = names[0]
    if len(names) > 1:
        name = st.selectbox("Kernel", names, key=f"sass-kernel-{number}", label_visibility="collapsed",
                            format_func=show_hidden) or name  # fmt: skip
    search, order = st.columns([2, 1.2], vertical_alignment="center")
    with search:
        word = st.text_input("Search", key="sass-search", placeholder="LDG, FFMA, line 38 …",
                             label_visibility="collapsed")  # fmt: skip
    with order:
        grouped = st.toggle("by source line", key="sass-grouped", help="Otherwise in the order of the addresses.")
    return kernels[name], word.strip(), grouped


def _matches(row: Instruction, word: str) -> bool:
    if word.lower().startswith("line "):
        return str(row.line) == word[5:].strip()
    return bool(row.address) and word.upper() in row.text.upper()


def _html(
    rows: Sequence[Instruction], source: str, samples: Mapping[int, Heat], hues: Mapping[int, int], *, by_line: bool
) -> str:
    """Write the instructions as HTML, in the order of the addresses or below the source line that each comes from."""
    code = highlight.lines(source)
    texts = highlight.lines("\n".join(row.text for row in rows), "sass")
    pairs = list(zip(rows, texts, strict=False))
    if by_line:
        pairs = sorted((p for p in pairs if p[0].address), key=lambda pair: (pair[0].line == 0, pair[0].line))
    html: list[str] = []
    for line, group in groupby(pairs, key=lambda pair: pair[0].line):
        run = list(group)
        if by_line:
            html.append(_source_row(line, code, len(run), samples.get(line)))
        html += _instructions(run, hues.get(line))
    return f'<table class="cg-code" tabindex="0" aria-label="machine code">{"".join(html)}</table>'


def _source_row(line: int, code: Sequence[str], count: int, hot: Heat | None) -> str:
    said = [counted(count, "instruction")]
    said += [f"{100 * hot.share:.0f} % of the samples"] if hot else []
    told = f' <span class="cg-quiet">{escape_html(", ".join(said))}</span>'
    if not line or line > len(code):
        return f'<tr class="cg-from"><td class="cg-ln" colspan="2"></td><td>no line of this file{told}</td></tr>'
    text = highlight.without_indent(code[line - 1])
    return f'<tr class="cg-from cg-at-{line}"><td class="cg-ln"></td>{_to_line(line)}<td>{text}{told}</td></tr>'


def _to_line(line: int) -> str:
    link = f'<a class="cg-to-line" href="#L{line}">{line}</a>' if line else ""
    return f'<td class="cg-ln">{link}</td>'


def _instructions(run: Sequence[tuple[Instruction, str]], hue: int | None) -> Iterator[str]:
    """Write a run of instructions of one source line; its first row links to the line."""
    before = ""
    for number, (row, text) in enumerate(run):
        place = f'<span class="cg-place">{escape_html(row.header)}</span>' if row.header != before else ""
        before = row.header
        kind = f"cg-at-{row.line} cg-hue-{hue}" if hue is not None else ""
        link = _to_line(row.line if number == 0 else 0)
        yield f'<tr class="{kind}"><td class="cg-ln">{row.address}</td>{link}<td>{text}{place}</td></tr>'
