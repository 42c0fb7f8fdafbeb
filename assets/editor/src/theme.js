// The page's colours: its custom properties, which follow Streamlit's theme by light-dark().

import { EditorView } from "@codemirror/view";

const MONO = 'var(--cg-mono, "Source Code Pro", ui-monospace, Menlo, Consolas, monospace)';

export const theme = EditorView.theme({
  "&": {
    "--cg-tok-word": "light-dark(#8250df, #c9a2ff)",
    "--cg-tok-type": "light-dark(#0a6c74, #6cd1d8)",
    "--cg-tok-directive": "light-dark(#8a5a00, #e3b341)",
    "--cg-tok-string": "light-dark(#0a5c2c, #8fd6a0)",
    "--cg-tok-number": "light-dark(#0550ae, #79b8ff)",
    "--cg-tok-function": "light-dark(#0f4fa8, #9ecbff)",
    "--cg-tok-sign": "light-dark(#4b5563, #a8b3c1)",
    height: "max(16rem, calc(100vh - 17.8rem))",
    fontSize: "0.8rem",
    color: "var(--cg-text)",
    backgroundColor: "var(--cg-code)",
    border: "1px solid var(--cg-line)",
    borderRadius: "4px",
  },
  "&.cm-focused": { outline: "none", borderColor: "var(--cg-blue)" },
  ".cm-scroller": { fontFamily: MONO, lineHeight: "1.42", overflow: "auto" },
  ".cm-content": { caretColor: "var(--cg-text)", padding: "2px 0" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--cg-text)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "light-dark(#cfe2f7, #24476b)",
  },
  ".cm-activeLine": { backgroundColor: "light-dark(#eef3f880, #1b222b80)" },
  ".cm-gutters": {
    backgroundColor: "var(--cg-code)",
    color: "var(--cg-grey)",
    borderRight: "1px solid var(--cg-line)",
  },
  ".cm-activeLineGutter": { backgroundColor: "light-dark(#eef3f8, #1b222b)", color: "var(--cg-text)" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "1.9rem", padding: "0 3px 0 4px" },
  ".cm-gutter-lint": { width: "1.15em" },
  ".cm-gutter-lint .cm-gutterElement": { padding: "0 0.1em" },
  ".cm-lint-marker": { width: "0.9em", height: "0.9em" },
  ".cg-lock-gutter": { color: "var(--cg-amber)", fontSize: "0.85em" },
  ".cg-lock-gutter .cm-gutterElement": { padding: "0 2px 0 1px" },
  ".cg-locked": {
    backgroundImage:
      "repeating-linear-gradient(135deg, transparent 0 6px, light-dark(#8a5a0016, #e3b34116) 6px 9px)",
    boxShadow: "inset 2px 0 0 var(--cg-amber)",
  },
  ".cg-cuda-word, .cg-cuda-word *": { color: "var(--cg-tok-word) !important" },
  ".cg-cuda-name, .cg-cuda-name *": { color: "var(--cg-tok-type) !important" },
  ".cg-note-inline": {
    display: "inline-block",
    verticalAlign: "bottom",
    maxWidth: "60ch",
    overflow: "hidden",
    textOverflow: "ellipsis",
    whiteSpace: "nowrap",
    marginLeft: "1.5em",
    padding: "0 0.4em",
    borderRadius: "3px",
    fontFamily: '"Source Sans", sans-serif',
    userSelect: "none",
    cursor: "default",
  },
  ".cg-note-error": { color: "var(--cg-red)", backgroundColor: "var(--cg-del)" },
  ".cg-note-warning": { color: "var(--cg-amber)", backgroundColor: "light-dark(#fdf3df, #33290f)" },
  ".cg-note-info": { color: "var(--cg-blue)", backgroundColor: "var(--cg-soft)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: "light-dark(#c9e8d1, #1f4a2c)",
    outline: "1px solid var(--cg-green)",
  },
  ".cm-nonmatchingBracket, &.cm-focused .cm-nonmatchingBracket": {
    backgroundColor: "var(--cg-del)",
    outline: "1px solid var(--cg-red)",
  },
  ".cm-searchMatch": { backgroundColor: "light-dark(#ffe9a8, #5a4a10)" },
  ".cm-searchMatch-selected": { backgroundColor: "light-dark(#ffc94d, #8a6d00)" },
  ".cm-selectionMatch": { backgroundColor: "light-dark(#e3ecd9, #26361f)" },
  ".cm-foldPlaceholder": {
    backgroundColor: "var(--cg-soft)",
    borderColor: "var(--cg-line)",
    color: "var(--cg-grey)",
    padding: "0 0.3em",
  },
  ".cm-panels": { backgroundColor: "var(--cg-soft)", color: "var(--cg-text)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--cg-line)" },
  ".cm-panels-bottom": { borderTop: "1px solid var(--cg-line)" },
  ".cm-panel.cm-search label": { fontSize: "0.8rem" },
  ".cm-textfield": {
    backgroundColor: "var(--cg-code)",
    color: "var(--cg-text)",
    border: "1px solid var(--cg-line)",
    fontSize: "0.8rem",
  },
  ".cm-button": {
    backgroundImage: "none",
    backgroundColor: "var(--cg-code)",
    color: "var(--cg-text)",
    border: "1px solid var(--cg-line)",
    fontSize: "0.8rem",
  },
  ".cm-panel [name=close]": { color: "var(--cg-text)" },
  ".cm-panel.cm-panel-lint ul": { maxHeight: "9rem", fontSize: "0.8rem" },
  ".cm-panel.cm-panel-lint ul [aria-selected]": { backgroundColor: "light-dark(#e3effb, #17304a)" },
  ".cm-panel.cm-panel-lint ul:focus [aria-selected]": {
    backgroundColor: "light-dark(#cfe2f7, #24476b)",
    color: "var(--cg-text)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--cg-soft)",
    color: "var(--cg-text)",
    border: "1px solid var(--cg-line)",
    maxWidth: "60rem",
    fontSize: "0.8rem",
  },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-diagnosticSource": { opacity: "1", color: "var(--cg-grey)" },
});

/** Whether the element stands on a dark ground. */
export function isDark(element) {
  const scheme = getComputedStyle(element).colorScheme;
  if (scheme === "dark" || scheme === "light") return scheme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The bar, and the choice above the text. */
export const BAR_CSS = `
.cg-editor-bar { display: flex; flex-wrap: wrap; align-items: center; gap: 0.3rem 0.5rem; font-size: 0.8rem; color: var(--cg-grey); }
:is(.cg-editor, .cg-editor-bar) button.cg-button { font: inherit; font-size: 0.875rem; min-height: 1.9rem; padding: 0.1rem 0.6rem; border: 1px solid var(--cg-line); border-radius: 4px; background: transparent; color: var(--cg-text); cursor: pointer; white-space: nowrap; }
:is(.cg-editor, .cg-editor-bar) button.cg-button:hover { border-color: var(--cg-blue); color: var(--cg-blue); }
:is(.cg-editor, .cg-editor-bar) button.cg-button:focus-visible { outline: 2px solid var(--cg-blue); outline-offset: 1px; }
:is(.cg-editor, .cg-editor-bar) button.cg-primary, :is(.cg-editor, .cg-editor-bar) button.cg-primary:hover { background: var(--cg-blue); border-color: var(--cg-blue); color: light-dark(#ffffff, #0b1016); }
:is(.cg-editor, .cg-editor-bar) button.cg-primary:hover { filter: brightness(1.08); }
.cg-editor-bar button.cg-primary:disabled { background: transparent; border-color: var(--cg-line); color: var(--cg-grey); cursor: default; filter: none; }
.cg-editor-bar kbd { font: inherit; font-size: 0.8rem; opacity: 0.85; background: none; border: none; padding: 0; color: inherit; }
.cg-editor-state { flex: 1 1 0; min-width: 3rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.cg-editor-place { white-space: nowrap; font-variant-numeric: tabular-nums; }
.cg-editor-conflict { display: flex; flex-wrap: wrap; gap: 0.3rem 0.5rem; align-items: center; border: 1px solid var(--cg-amber); border-left-width: 4px; border-radius: 4px; padding: 0.25rem 0.6rem; margin-bottom: 0.4rem; font-size: 0.86rem; color: var(--cg-text); }
.cg-editor-conflict[hidden] { display: none; }
.cg-editor-conflict b { color: var(--cg-amber); }
`;
