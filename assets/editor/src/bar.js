// The bar at the bottom of the page: one thing to do with the draft, Run, and two ways to leave it; whether it is saved,
// and where the cursor is. Above the text, the choice between two versions when the draft was changed elsewhere.

import { BAR_CSS } from "./theme.js";

const WORDS = {
  unchanged: "no changes yet",
  saved: "✓ draft saved",
  typing: "● typing",
  sent: "● saving",
  late: "▲ not saved yet: the server does not respond. This tab keeps the text, even after a reload.",
  conflict: "▲ not saved: choose a text above",
};
const LEAVES = "Tab now leads to Run.";

function button(text, className, onClick, title = "") {
  const made = document.createElement("button");
  made.type = "button";
  made.className = `cg-button ${className}`;
  made.textContent = text;
  made.title = title;
  made.addEventListener("click", onClick);
  return made;
}

export class Bar {
  /** `actions`: run, close, discard, theirs, mine; each is called by its button. */
  constructor(actions) {
    this.style = document.createElement("style");
    this.style.textContent = BAR_CSS;
    this.conflict = this.#conflict(actions);
    this.dom = document.createElement("div");
    this.dom.className = "cg-editor-bar";
    this.run = button("Run the edit ", "cg-primary", actions.run);
    const key = document.createElement("kbd");
    key.textContent = /Mac/.test(navigator.platform) ? "⌘⏎" : "Ctrl+Enter";
    this.run.append(key);
    this.words = document.createElement("span");
    this.words.className = "cg-editor-state";
    this.words.setAttribute("role", "status");
    this.place = document.createElement("span");
    this.place.className = "cg-editor-place";
    this.dom.append(
      this.style,
      this.run,
      button("Close, keep the draft", "", actions.close),
      button("Discard", "", actions.discard, "Can be undone"),
      this.words,
      this.place,
    );
  }

  /** `blocked`: why the text cannot be run now, or "". */
  show({ state, blocked, leaving, note, line, column, marks }) {
    this.conflict.hidden = state !== "conflict";
    this.run.disabled = blocked !== "";
    this.run.title = blocked;
    const words = [note || WORDS[state], leaving ? LEAVES : "", blocked].filter(Boolean).join(" · ");
    if (this.words.textContent !== words) this.words.textContent = this.words.title = words;
    const messages = marks ? ` · ${marks} message${marks > 1 ? "s" : ""}: F8` : "";
    this.place.textContent = `Ln ${line}, Col ${column}${messages}`;
    this.place.title = "Ctrl+F find and replace · Ctrl+Shift+M list of messages · Esc, then Tab leaves the editor";
  }

  #conflict(actions) {
    const box = document.createElement("div");
    box.className = "cg-editor-conflict";
    box.setAttribute("role", "alert");
    box.hidden = true;
    const title = document.createElement("b");
    title.textContent = "▲ Conflict";
    const words = document.createElement("span");
    words.textContent = "The saved draft was changed elsewhere. Ctrl+Z undoes a choice.";
    box.append(
      title,
      words,
      button("Keep my version", "", actions.mine),
      button("Use the saved draft", "", actions.theirs),
    );
    return box;
  }
}
