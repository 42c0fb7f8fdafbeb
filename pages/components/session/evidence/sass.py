"""The SASS pane: the machine code of one kernel, with the lines of the kernel file that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import streamlit as st

from cutegen_core import views
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.views import Instruction, MachineCode, StepView, parse_machine_code
from cutegen_core.views.code_text import highlight
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.profile_pane import heat
from pages.components.shared import charts
from pages.components.shared.code_tables import Heat
from pages.components.shared.texts import escape_html, heading, heard, note, quiet

SHOWN = 3000


def render_sass(given: PaneInput) -> None:
    """Draw the choice of the kernel and the search, then the instructions with the profiler's samples."""
    store, shown, resources = given.store, given.tried, given.trial.resources
    samples = heat(views.profile_view(store, given.view.state, shown.step).profile)
    if resources is None or not resources.sass:
        note("info", "No machine code: this kernel was not compiled, or its code was not kept.")
        return
    kernels = {demangle(code.mangled): code for code in parse_machine_code(store.text(resources.sass))}
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
    with st.container(key="sass-pane"):
        st.html(_html(found[:SHOWN], shown.source, samples, by_line=grouped))
    quiet("Counts are static: an instruction in a loop counts once. A grey place is the header the line came through.")


def _choose(shown: StepView, kernels: dict[str, MachineCode]) -> tuple[MachineCode, str, bool]:
    names = list(kernels)
    number = shown.step.number
    name = names[0]
    if len(names) > 1:
        name = st.selectbox("Kernel", names, key=f"sass-kernel-{number}", label_visibility="collapsed") or name
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


def _html(rows: Sequence[Instruction], source: str, samples: Mapping[int, Heat], *, by_line: bool) -> str:
    """Write the instructions as HTML; before each run of one source line, that line."""
    code = highlight.lines(source)
    texts = highlight.lines("\n".join(row.text for row in rows), "sass")
    pairs = list(zip(rows, texts, strict=False))
    if by_line:
        pairs = sorted((p for p in pairs if p[0].address), key=lambda pair: (pair[0].line == 0, pair[0].line))
    html: list[str] = []
    for line, group in groupby(pairs, key=lambda pair: pair[0].line):
        run = list(group)
        html.append(_source_row(line, code, len(run) if by_line else 0, samples.get(line)))
        html += _instructions(run)
    return f'<table class="cg-code" tabindex="0" aria-label="machine code">{"".join(html)}</table>'


def _source_row(line: int, code: Sequence[str], count: int, hot: Heat | None) -> str:
    said = [f"{count} instructions"] if count else []
    said += [f"{100 * hot.share:.0f} % of the samples"] if hot else []
    counted = f' <span class="cg-quiet">{escape_html(", ".join(said))}</span>' if said else ""
    if not line or line > len(code):
        return f'<tr class="cg-from"><td class="cg-ln"></td><td>no line of this file{counted}</td></tr>'
    link = f'<a class="cg-to-line" href="#L{line}">{line}</a>'
    text = highlight.without_indent(code[line - 1])
    return f'<tr class="cg-from"><td class="cg-ln">{link}</td><td>{text}{counted}</td></tr>'


def _instructions(run: Sequence[tuple[Instruction, str]]) -> Iterator[str]:
    before = ""
    for row, text in run:
        place = f'<span class="cg-place">{escape_html(row.header)}</span>' if row.header != before else ""
        before = row.header
        yield f'<tr><td class="cg-ln">{row.address}</td><td>{text}{place}</td></tr>'
