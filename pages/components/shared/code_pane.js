// The map beside a pane of code: where its changes and messages are, and what of it is in view. Streamlit calls the
// default export at every drawing. The table is drawn by the server; this script scrolls it and ticks its checkboxes.

const PANE = ".st-key-code-pane";
const KINDS = [["add", "tr.cg-add, td.cg-add"], ["del", "tr.cg-del, td.cg-del"], ["says", "tr.cg-says"]];
const CHANGED = "tr.cg-add, tr.cg-del, tr:has(> td.cg-add, > td.cg-del)";
const TYPING = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]";
const LINES_ABOVE = 3;
const maps = new WeakMap();

const hunks = (pane) => [...pane.querySelectorAll("[data-hunk]")];

class CodeMap {
  constructor(parent) {
    this.dom = document.createElement("div");
    this.dom.className = "map";
    this.dom.setAttribute("aria-hidden", "true");
    this.dom.addEventListener("click", (event) => this.jump(event));
    parent.append(this.dom);
    this.ends = new AbortController();
    const { signal } = this.ends;
    document.addEventListener("keydown", (event) => this.pressed(event), { signal });
    document.addEventListener("click", (event) => this.clicked(event), { signal });
    window.addEventListener("hashchange", () => this.target(), { signal });
    this.sizes = new ResizeObserver(() => this.draw());
  }

  receive({ data }) {
    this.wanted = data.shown;
    this.find();
  }

  /** The pane may be drawn after the map, and its table after the pane. */
  find(tries = 40) {
    const pane = document.querySelector(PANE);
    const table = pane?.querySelector("table");
    if (table && (pane !== this.pane || table !== this.table || this.wanted !== this.shown)) this.take(pane, table);
    if (tries && this.dom.isConnected) setTimeout(() => this.find(tries - 1), 50);
  }

  take(pane, table) {
    const isNew = this.wanted !== this.shown || table !== this.table;
    [this.pane, this.table, this.shown] = [pane, table, this.wanted];
    this.sizes.disconnect();
    this.sizes.observe(pane);
    this.sizes.observe(table);
    pane.onscroll = () => this.place();
    pane.onchange = () => this.draw();
    if (isNew) this.begin();
    this.draw();
  }

  /** The first change of the code is in view; what an address points at comes before it. */
  begin() {
    this.at = -1;
    this.pane.scrollTop = 0;
    if (this.target()) return;
    const first = [...this.pane.querySelectorAll(CHANGED)].find((one) => !one.closest(".cg-fold-body"));
    if (first && !this.inView(first)) this.scrollTo(first);
  }

  target() {
    const line = location.hash.length > 1 && this.pane ? this.pane.querySelector(`#${CSS.escape(location.hash.slice(1))}`) : null;
    if (!line) return false;
    this.open(line);
    line.scrollIntoView({ block: "center" });
    return true;
  }

  open(line) {
    const box = line.closest(".cg-fold-body")?.previousElementSibling?.querySelector("input");
    if (box && !box.checked) {
      box.checked = true;
      this.draw();
    }
  }

  inView(line) {
    const [at, pane] = [line.getBoundingClientRect(), this.pane.getBoundingClientRect()];
    return at.height > 0 && at.top >= pane.top && at.bottom <= pane.bottom - 2 * at.height;
  }

  scrollTo(line) {
    const [at, pane] = [line.getBoundingClientRect(), this.pane.getBoundingClientRect()];
    this.pane.scrollTop += at.top - pane.top - LINES_ABOVE * Math.min(at.height, 40);
  }

  show(all, index) {
    const line = all[index];
    this.open(line);
    this.at = index;
    this.scrollTo(line);
    for (const one of all) one.classList.toggle("cg-here", one === line);
    this.say(`· hunk ${line.dataset.hunk} of ${all.at(-1).dataset.hunk}`);
  }

  say(words) {
    for (const one of document.querySelectorAll(".cg-at")) one.textContent = words;
  }

  /** From the hunk that was shown last, or else from what is in view. */
  move(by) {
    if (!this.pane?.isConnected) return;
    const all = hunks(this.pane);
    if (!all.length) return;
    const code = Math.max(0, all.findIndex((one) => !one.closest(".cg-fold-body")));
    const next = this.at < 0 ? (by > 0 ? code : code - 1) : this.at + by;
    this.show(all, (next + all.length) % all.length);
  }

  unfold() {
    const boxes = [...(this.pane?.querySelectorAll(".cg-unfold input") ?? [])];
    const open = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = open;
    this.draw();
  }

  pressed(event) {
    const typing = event.composedPath()[0]?.closest?.(TYPING);
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("[role=dialog]:not(.cg-tour)")) return;
    if (event.key.toLowerCase() === "j") this.move(event.shiftKey ? -1 : 1);
    else if (event.key.toLowerCase() === "u" && !event.shiftKey) this.unfold();
    else return;
    event.preventDefault();
  }

  clicked(event) {
    const go = event.target.closest?.("[data-cg-go]")?.dataset.cgGo;
    if (go === "next") this.move(1);
    else if (go === "previous") this.move(-1);
    else if (go === "unfold") this.unfold();
  }

  jump(event) {
    const box = this.dom.getBoundingClientRect();
    const share = (event.clientY - box.top) / box.height;
    this.pane.scrollTop = share * this.pane.scrollHeight - this.pane.clientHeight / 2;
  }

  draw() {
    if (!this.pane?.isConnected) return;
    const [pane, whole] = [this.pane.getBoundingClientRect(), this.pane.scrollHeight];
    const marks = KINDS.flatMap(([kind, rows]) => this.runs(kind, rows, pane.top - this.pane.scrollTop, whole));
    this.view = document.createElement("div");
    this.view.className = "view";
    this.dom.replaceChildren(...marks, ...(marks.length ? [this.view] : []));
    this.place();
  }

  /** One mark for rows that touch. */
  runs(kind, rows, top, whole) {
    const spans = [];
    for (const row of this.pane.querySelectorAll(rows)) {
      const at = row.getBoundingClientRect();
      if (!at.height) continue;
      const last = spans.at(-1);
      if (last && at.top - top <= last[1] + 1) last[1] = at.bottom - top;
      else spans.push([at.top - top, at.bottom - top]);
    }
    return spans.map(([begin, end]) => {
      const mark = document.createElement("div");
      mark.className = `mark ${kind}`;
      mark.style.top = `${(100 * begin) / whole}%`;
      mark.style.height = `${(100 * (end - begin)) / whole}%`;
      return mark;
    });
  }

  place() {
    const { scrollTop, clientHeight, scrollHeight } = this.pane;
    this.view.style.top = `${(100 * scrollTop) / scrollHeight}%`;
    this.view.style.height = clientHeight < scrollHeight ? `${(100 * clientHeight) / scrollHeight}%` : "0";
  }

  end() {
    this.ends.abort();
    this.sizes.disconnect();
  }
}

export default function (component) {
  const parent = component.parentElement;
  if (!maps.has(parent)) maps.set(parent, new CodeMap(parent));
  maps.get(parent).receive(component);
  // Also called after a drawing that was overtaken by the next one: only an element that has left the page is over.
  return () => setTimeout(() => {
    if (parent.isConnected) return;
    maps.get(parent)?.end();
    maps.delete(parent);
  });
}
