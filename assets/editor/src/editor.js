// One editor in one element of the page: CodeMirror, the handshake with the server, and the line under the text.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, codeFolding, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Prec, Transaction } from "@codemirror/state";
import {
  EditorView,
  crosshairCursor,
  drawSelection,
  dropCursor,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  rectangularSelection,
} from "@codemirror/view";
import { Bar } from "./bar.js";
import { cuda } from "./cuda.js";
import { Handshake, Stash, lines } from "./handshake.js";
import { locks } from "./locks.js";
import { countMarks, marks, showMarks } from "./marks.js";
import { change } from "./merge.js";
import { isDark, theme } from "./theme.js";

const LOCKED = "⊘ locked: remove “// cutegen: lock” first";
const JOINED = "▲ joined with a change made elsewhere: Ctrl+Z takes it out";
const FIELDS = "input, textarea, select, [contenteditable=true], [role=dialog]";
const NOTE_MS = 4000;
const STILL_TYPING_MS = 800;

/** The editor has closed under somebody's fingers: the letters that follow are not shortcuts of the page. */
function keepTypingFromThePage() {
  const over = new AbortController();
  let pause = setTimeout(() => over.abort(), STILL_TYPING_MS);
  const swallow = (event) => {
    const elsewhere = event.target.closest?.("input, textarea, [contenteditable=true]");
    if (elsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    clearTimeout(pause);
    pause = setTimeout(() => over.abort(), STILL_TYPING_MS);
  };
  window.addEventListener("keydown", swallow, { capture: true, signal: over.signal });
}

export class Editor {
  /** `parent`: the element to fill. `data`: see `receive`. `ports`: setStateValue and setTriggerValue of Streamlit. */
  constructor(parent, data, ports) {
    Object.assign(this, { parent, ports, leaving: false, note: "", marksShown: null, typedAt: 0, scheme: new Compartment() });
    this.base = data.base;
    this.bar = new Bar({
      run: () => this.run(),
      close: () => this.leave("close"),
      discard: () => this.leave("discard"),
      theirs: () => this.settle(() => this.handshake.takeTheirs()),
      mine: () => this.settle(() => this.handshake.keepMine()),
    });
    this.dom = document.createElement("div");
    this.dom.className = "cg-editor";
    this.handshake = new Handshake(
      { read: () => this.view.state.sliceDoc().toWellFormed(), write: (text) => this.write(text) },
      {
        send: (message) => this.ports.setStateValue("draft", message),
        stash: new Stash("draft", `${data.session}:${data.base}`),
        next: (version) => new Stash("draft", `${data.session}:${version}`),
        joined: () => this.say(JOINED),
        changed: () => this.refresh(),
      },
    );
    this.place = new Stash("place", `${data.session}:${data.base}`);
    this.view = new EditorView({ state: EditorState.create({ doc: "", extensions: this.extensions(data) }) });
    this.dom.append(this.bar.conflict, this.view.dom);
    parent.append(this.dom);
    this.listen();
    this.fresh = true;
    this.receive(data);
    this.goTo(this.place.get() ?? { line: data.marks[0]?.line ?? data.line });
    this.fresh = false;
    this.focus(data);
  }

  /** Once it is wanted. Not on a page that is merely loaded: there the letters are its shortcuts. */
  focus(data) {
    if (data.focus && !this.focusWanted) this.view.contentDOM.focus({ preventScroll: true });
    this.focusWanted = data.focus;
  }

  /** `data`: {session, base, label, focus, line, blocked, opening, ack, kept, version, text, marks, marksOf}. */
  receive(data) {
    this.blocked = data.blocked;
    this.handshake.receive(data);
    const dark = isDark(this.parent);
    if (dark !== this.view.state.facet(EditorView.darkTheme)) {
      this.view.dispatch({ effects: this.scheme.reconfigure(EditorView.darkTheme.of(dark)) });
    }
    // The lines of the marks are those of the server's text: they are placed while both texts are the same.
    if (data.marksOf !== this.marksShown && (this.marksShown === null || this.view.state.sliceDoc() === lines(data.text))) {
      this.marksShown = data.marksOf;
      showMarks(this.view, data.marks);
    }
    if (!this.fresh) this.focus(data);
    this.refresh();
  }

  /** Begins at a line, or where this tab left the text: {head, top}. The view is where the cursor is. */
  goTo({ line, head, top }) {
    const { doc } = this.view.state;
    const at = head === undefined ? doc.line(Math.max(1, Math.min(line, doc.lines))).from : Math.min(head, doc.length);
    this.view.dispatch({ selection: { anchor: at } });
    // By hand: CodeMirror's own way would scroll the page, too.
    this.view.requestMeasure({
      read: (view) => {
        const block = view.lineBlockAt(at);
        const height = view.scrollDOM.clientHeight;
        const seen = top !== undefined && block.top >= top && block.bottom <= top + height;
        return seen ? top : block.top - height / 2;
      },
      write: (from, view) => (view.scrollDOM.scrollTop = from),
    });
  }

  run() {
    if (this.blocked) {
      this.say(`▲ ${this.blocked}`);
      return true;
    }
    const message = this.handshake.run();
    this.ports.setTriggerValue("run", message);
    this.refresh();
    return true;
  }

  leave(how) {
    this.discarded = how === "discard";
    if (this.discarded) this.place.drop();
    this.ports.setTriggerValue(how, this.handshake.message());
  }

  keepPlace() {
    if (this.discarded || this.fresh) return;
    this.place.put({ head: this.view.state.selection.main.head, top: this.view.scrollDOM.scrollTop });
  }

  destroy() {
    this.handshake.close(this.discarded);
    if (Date.now() - this.typedAt < STILL_TYPING_MS) keepTypingFromThePage();
    this.gone.abort();
    this.view.destroy();
    this.bar.dom.remove();
    this.dom.remove();
  }

  /** Replaces the part that differs, so that cursor, folds and marks elsewhere stay. It can be undone. */
  write(text) {
    const old = this.view.state.sliceDoc();
    this.view.dispatch({
      changes: change(old, text),
      annotations: [Transaction.addToHistory.of(!this.fresh), Transaction.remote.of(true)],
      filter: false,
    });
  }

  settle(choose) {
    choose();
    this.view.focus();
  }

  refresh() {
    const { state } = this.view;
    const head = state.selection.main.head;
    const line = state.doc.lineAt(head);
    const { state: draft, version } = this.handshake;
    this.bar.show({
      state: draft === "saved" && version === this.base ? "unchanged" : draft,
      blocked: this.blocked,
      leaving: this.leaving,
      note: this.note,
      line: line.number,
      column: head - line.from + 1,
      marks: countMarks(state),
    });
  }

  say(text) {
    clearTimeout(this.noteEnds);
    this.note = text;
    this.noteEnds = setTimeout(() => {
      this.note = "";
      this.refresh();
    }, NOTE_MS);
    // From within a transaction's filter nothing may be drawn yet.
    queueMicrotask(() => this.refresh());
  }

  /** The editor takes Tab for itself; after Escape the next one leaves, until something is typed. */
  letTabLeave(leaving) {
    if (leaving === this.leaving) return false;
    this.leaving = leaving;
    this.view.setTabFocusMode(leaving);
    this.refresh();
    return leaving;
  }

  listen() {
    this.gone = new AbortController();
    const { signal } = this.gone;
    const flush = () => this.handshake.flush();
    window.addEventListener("pagehide", flush, { signal });
    document.addEventListener("visibilitychange", () => document.hidden && flush(), { signal });
    document.addEventListener("keydown", (event) => this.fromThePage(event), { signal });
    this.dom.addEventListener("keydown", (event) => this.toTheBar(event), { capture: true });
    // An element that has left the page has no place any more.
    this.view.scrollDOM.addEventListener("scroll", () => this.keepPlace(), { passive: true });
  }

  /** From anywhere on the page but another field: Ctrl+Enter runs, E leads into the text. */
  fromThePage(event) {
    if (event.defaultPrevented || event.target.closest?.(FIELDS)) return;
    const held = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && held) this.run();
    else if (event.key.toLowerCase() === "e" && !held && !event.altKey) this.view.focus();
    else return;
    event.preventDefault();
  }

  toTheBar(event) {
    if (event.key !== "Tab" || event.shiftKey || !this.leaving || !this.bar.run.isConnected) return;
    event.preventDefault();
    event.stopPropagation();
    (this.blocked ? this.bar.run.nextElementSibling : this.bar.run).focus();
  }

  extensions(data) {
    const run = [
      { key: "Mod-Enter", scope: "editor search-panel", run: () => this.run() },
      { key: "Ctrl-Enter", scope: "editor search-panel", run: () => this.run() },
    ];
    return [
      Prec.highest(keymap.of(run)),
      lineNumbers(),
      highlightActiveLineGutter(),
      highlightSpecialChars(),
      history(),
      foldGutter(),
      codeFolding(),
      drawSelection(),
      dropCursor(),
      EditorState.allowMultipleSelections.of(true),
      EditorState.tabSize.of(4),
      indentUnit.of("  "),
      indentOnInput(),
      bracketMatching(),
      rectangularSelection(),
      crosshairCursor(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      search({ top: true }),
      cuda,
      marks,
      locks(() => this.say(LOCKED)),
      keymap.of([...searchKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap, indentWithTab]),
      Prec.lowest(keymap.of([{ key: "Escape", run: () => this.letTabLeave(true) }])),
      theme,
      this.scheme.of(EditorView.darkTheme.of(isDark(this.parent))),
      EditorView.contentAttributes.of({
        "aria-label": data.label,
        tabindex: "0",
        "aria-description": "Ctrl+Enter runs the edit. Escape, then Tab leads to its button. F8 goes to the next message.",
        spellcheck: "false",
        autocapitalize: "off",
        autocorrect: "off",
      }),
      EditorView.domEventHandlers({
        blur: () => {
          this.handshake.flush();
          this.letTabLeave(false);
        },
      }),
      EditorView.updateListener.of((update) => {
        const remote = update.transactions.some((tr) => tr.annotation(Transaction.remote));
        if (update.docChanged && !remote) {
          this.typedAt = Date.now();
          this.letTabLeave(false);
          this.handshake.typed();
        } else if (update.selectionSet) this.refresh();
        if (update.docChanged || update.selectionSet) this.keepPlace();
      }),
    ];
  }
}
