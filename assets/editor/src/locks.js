// Locked regions: the lines from `// cutegen: lock` to `// cutegen: unlock` (or the end) cannot be changed until the
// first mark is changed or removed. Undo and texts from the server pass.

import { EditorState, RangeSetBuilder, StateField } from "@codemirror/state";
import { Decoration, EditorView, GutterMarker, gutter } from "@codemirror/view";

const REGION = /^[ \t]*\/\/[ \t]*cutegen: lock\b[^\n]*(\n|$)([^]*?)(?:^[ \t]*\/\/[ \t]*cutegen: unlock\b|$(?![^]))/gm;

/** [{mark, inside, end}]: where the mark's line begins, where it ends, and where the last locked line ends. */
function regions(doc) {
  const text = doc.toString();
  if (!text.includes("cutegen: lock")) return [];
  return Array.from(text.matchAll(REGION), (match) => {
    const inside = doc.lineAt(match.index).to;
    return { mark: match.index, inside, end: Math.min(doc.length, inside + match[1].length + match[2].length) };
  }).filter(({ inside, end }) => end > inside);
}

const found = StateField.define({
  create: (state) => regions(state.doc),
  update: (value, tr) => (tr.docChanged ? regions(tr.newDoc) : value),
});

/** What a change may not touch: false for nothing of it, or the ranges that stay as they are. */
function refuse(tr, said) {
  if (!tr.docChanged) return true;
  const locked = tr.startState.field(found).filter(({ mark, inside }) => tr.changes.touchesRange(mark, inside) !== "cover");
  if (!locked.length) return true;
  let edge = false;
  let touched = false;
  tr.changes.iterChanges((from, to, _newFrom, _newTo, inserted) => {
    for (const { inside, end } of locked) {
      const between = from === to && (from === end || (from === inside && inserted.lines > 1));
      edge ||= between;
      touched ||= between || (from < end && to > inside);
    }
  });
  if (touched) said(tr.startState);
  return edge ? false : locked.flatMap(({ inside, end }) => [inside, end]);
}

class LockMarker extends GutterMarker {
  toDOM() {
    const sign = document.createElement("span");
    sign.textContent = "⊘";
    sign.title = "Locked: change or delete the line “// cutegen: lock” to edit here";
    return sign;
  }
}
const MARKER = new LockMarker();
const LINE = Decoration.line({ class: "cg-locked" });

function eachLine(state, visit) {
  for (const { inside, end } of state.field(found)) {
    for (let at = inside + 1; at < Math.max(end, inside + 2) && at <= state.doc.length; ) {
      const line = state.doc.lineAt(at);
      visit(line.from);
      at = line.to + 1;
    }
  }
}

const shading = EditorView.decorations.compute([found], (state) => {
  const builder = new RangeSetBuilder();
  eachLine(state, (from) => builder.add(from, from, LINE));
  return builder.finish();
});

const lockGutter = gutter({
  class: "cg-lock-gutter",
  markers: (view) => {
    const builder = new RangeSetBuilder();
    eachLine(view.state, (from) => builder.add(from, from, MARKER));
    return builder.finish();
  },
});

/** The extension; `said` is called when a change was kept from a locked line. */
export const locks = (said) => [found, shading, lockGutter, EditorState.changeFilter.of((tr) => refuse(tr, said))];
