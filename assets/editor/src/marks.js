// What compiler and checker said, at its lines: a sign in the gutter, the whole message on hover and in the list of
// messages, its beginning behind the line. Everything is set as text.

import { forEachDiagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, WidgetType, keymap } from "@codemirror/view";

const SIGNS = { error: "✗", warning: "▲", info: "→" };
const setNotes = StateEffect.define();

class Note extends WidgetType {
  constructor(severity, text, more) {
    super();
    Object.assign(this, { severity, text, more });
  }

  eq(other) {
    return other.severity === this.severity && other.text === this.text && other.more === this.more;
  }

  toDOM() {
    const note = document.createElement("span");
    note.className = `cg-note-inline cg-note-${this.severity}`;
    note.textContent = `${SIGNS[this.severity]} ${this.text}${this.more ? ` (and ${this.more} more)` : ""}`;
    return note;
  }

  ignoreEvent() {
    return false;
  }
}

const notes = StateField.define({
  create: () => Decoration.none,
  update(value, tr) {
    let next = value.map(tr.changes);
    for (const effect of tr.effects) if (effect.is(setNotes)) next = effect.value;
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const severity = (mark) => (mark.severity in SIGNS ? mark.severity : "warning");

/** Shows these marks: [{line, severity, tool, text}], lines from 1. Those beyond the text go to its last line. */
export function showMarks(view, marks) {
  const { doc } = view.state;
  const lineOf = (mark) => doc.line(Math.max(1, Math.min(doc.lines, mark.line)));
  const diagnostics = marks.map((mark) => {
    const line = lineOf(mark);
    const indent = /^\s*/.exec(line.text)[0].length;
    const from = indent < line.length ? line.from + indent : line.from;
    return { from, to: line.to, severity: severity(mark), source: mark.tool, message: mark.text };
  });
  const byLine = new Map();
  for (const mark of marks) {
    const at = lineOf(mark).to;
    byLine.set(at, [...(byLine.get(at) ?? []), mark]);
  }
  const placed = Array.from(byLine, ([at, said]) => {
    const widget = new Note(severity(said[0]), said[0].text.split("\n", 1)[0].slice(0, 300), said.length - 1);
    return Decoration.widget({ widget, side: 1 }).range(at);
  });
  view.dispatch(setDiagnostics(view.state, diagnostics), { effects: setNotes.of(RangeSet.of(placed, true)) });
}

export function countMarks(state) {
  let count = 0;
  forEachDiagnostic(state, () => (count += 1));
  return count;
}

export const marks = [notes, lintGutter(), keymap.of(lintKeymap)];
