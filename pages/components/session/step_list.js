// The list of steps and the tree at its left. Streamlit calls the default export at every drawing; the list is kept and
// changed where it differs. Texts are set as text, never as markup.

const ROW_PX = 25;
const LANE_PX = 13;
const MOST_LANES = 9;
const COLOURS = 5;
const SVG = "http://www.w3.org/2000/svg";

const lists = new WeakMap();

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function span(className, text) {
  const made = document.createElement("span");
  made.className = className;
  made.textContent = text;
  return made;
}

const x = (lane) => 9 + LANE_PX * Math.min(lane, MOST_LANES - 1);

/** From a step's point to its own line, down the line, and to the point it hangs on. */
function line(row, y, parentLane, parentY) {
  const own = x(row.lane);
  const rail = x(row.rail);
  const turn = ROW_PX / 2;
  const out = own === rail ? "" : `Q${rail} ${y} ${rail} ${y + turn}`;
  const back = x(parentLane) === rail ? `L${rail} ${parentY}` : `L${rail} ${parentY - turn}Q${rail} ${parentY} ${x(parentLane)} ${parentY}`;
  return `M${own} ${y}${out}${back}`;
}

function point(row, y) {
  const at = x(row.lane);
  const className = `point ${row.shape}`;
  switch (row.shape) {
    case "failed":
      return svg("path", { class: className, d: `M${at - 4} ${y - 4}l8 8m0 -8l-8 8` });
    case "none":
      return svg("path", { class: className, d: `M${at - 4} ${y}h8` });
    case "best": {
      const corners = [...Array(10).keys()].map((i) => {
        const [r, turn] = [i % 2 ? 3.2 : 7.5, (i * Math.PI) / 5];
        return `${at + r * Math.sin(turn)},${y - r * Math.cos(turn)}`;
      });
      return svg("polygon", { class: className, points: corners.join(" ") });
    }
    default:
      return svg("circle", { class: className, cx: at, cy: y, r: row.star ? 5 : 4 });
  }
}

class StepList {
  constructor(parent) {
    this.dom = document.createElement("div");
    this.dom.className = "steps";
    this.list = document.createElement("ol");
    this.list.setAttribute("aria-label", "Steps, newest first");
    this.tree = svg("svg", { class: "tree", "aria-hidden": "true" });
    this.dom.append(this.tree, this.list);
    this.items = new Map();
    this.dom.addEventListener("click", (event) => this.clicked(event));
    this.dom.addEventListener("keydown", (event) => this.pressed(event));
    this.dom.addEventListener("dragstart", (event) => this.dragged(event));
    this.dom.addEventListener("dragover", (event) => this.over(event));
    this.dom.addEventListener("dragend", () => this.dropped(null));
    this.dom.addEventListener("drop", (event) => this.dropped(event));
    parent.append(this.dom);
  }

  receive({ data, setStateValue }) {
    // a state and no trigger: a trigger is lost when another click follows before the server has looked
    this.send = (act, step, other = 0) => setStateValue("asked", { act, step, with: other, at: Date.now() });
    this.rows = data.rows;
    this.byNumber = new Map(data.rows.map((row) => [row.n, row]));
    this.session = data.session;
    const tree = JSON.stringify(data.rows.map((row) => [row.n, row.parent, row.lane, row.rail, row.best, row.shape, row.star]));
    if (tree !== this.drawn) this.draw(tree);
    this.fill();
    this.show(data.shown);
  }

  draw(tree) {
    this.drawn = tree;
    const lanes = Math.max(1, ...this.rows.map((row) => Math.max(row.lane, row.rail) + 1));
    const [width, height] = [x(lanes - 1) + 10, this.rows.length * ROW_PX];
    this.dom.style.setProperty("--tree", `${width}px`);
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.tree.setAttribute(key, value);
    const y = new Map(this.rows.map((row, i) => [row.n, (i + 0.5) * ROW_PX]));
    const lines = this.rows.map((row) => {
      const parent = this.byNumber.get(row.parent);
      const d = line(row, y.get(row.n), parent ? parent.lane : row.rail, parent ? y.get(parent.n) : height);
      return svg("path", { class: row.best ? "line way" : `line colour-${row.rail % COLOURS}`, d });
    });
    lines.sort((a, b) => a.classList.contains("way") - b.classList.contains("way"));
    this.tree.replaceChildren(...lines, ...this.rows.map((row) => point(row, y.get(row.n))));
  }

  fill() {
    const kept = new Map();
    const items = this.rows.map((row) => {
      const text = JSON.stringify(row);
      const old = this.items.get(row.n);
      const item = old && old.text === text ? old : { text, dom: this.item(row) };
      kept.set(row.n, item);
      return item.dom;
    });
    const focused = this.focused();
    items.forEach((dom, i) => {
      if (this.list.children[i] !== dom) this.list.insertBefore(dom, this.list.children[i] ?? null);
    });
    while (this.list.children.length > items.length) this.list.lastChild.remove();
    this.items = kept;
    if (focused && !this.focused()) this.link(focused)?.focus({ preventScroll: true });
  }

  item(row) {
    const item = document.createElement("li");
    item.dataset.step = row.n;
    const link = document.createElement("a");
    link.className = `row${row.best ? " way" : ""}`;
    link.href = `?id=${encodeURIComponent(this.session)}&step=${row.n}`;
    link.title = row.said;
    link.setAttribute("aria-label", row.said);
    link.tabIndex = -1;
    link.draggable = row.compare;
    const passed = row.shape === "passed" || row.shape === "best";
    const measure = passed && row.took ? [row.took, row.ratio].filter(Boolean).join(" ") : row.verdict;
    const sign = row.shape === "failed" ? "✗ " : "";
    link.append(
      span("number", row.n),
      span("star", row.star),
      span("mark", row.mark),
      span("idea", row.idea),
      span("next", row.next ? "next" : ""),
      span(`measure ${row.shape}`, sign + measure),
    );
    item.append(link);
    if (row.compare) {
      const compare = document.createElement("button");
      compare.type = "button";
      compare.className = "compare";
      compare.textContent = "⇄";
      compare.title = `Compare step ${row.n} with the best`;
      compare.setAttribute("aria-label", compare.title);
      compare.tabIndex = -1;
      item.append(compare);
    }
    return item;
  }

  show(shown) {
    const changed = shown !== this.shown;
    this.shown = shown;
    for (const row of this.rows) {
      const link = this.link(row.n);
      if (row.n === shown) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
    if (!this.focused()) this.rove(shown ?? this.rows[0]?.n);
    if (changed) this.reveal(shown);
  }

  link(number) {
    return this.items.get(number)?.dom.firstChild;
  }

  focused() {
    const root = this.dom.getRootNode();
    return Number(root.activeElement?.closest?.("li")?.dataset.step) || null;
  }

  /** One link of all is reached by Tab; the arrows lead to the others. */
  rove(number) {
    for (const { dom } of this.items.values()) for (const one of dom.children) one.tabIndex = -1;
    const item = this.items.get(number)?.dom;
    if (item) for (const one of item.children) one.tabIndex = 0;
  }

  /** By hand: the browser's own way would scroll the page, too. */
  reveal(number) {
    const i = this.rows.findIndex((row) => row.n === number);
    if (i < 0) return;
    const [top, seen] = [i * ROW_PX, this.dom.clientHeight];
    if (top < this.dom.scrollTop) this.dom.scrollTop = top - ROW_PX;
    else if (top + 2 * ROW_PX > this.dom.scrollTop + seen) this.dom.scrollTop = top + 2 * ROW_PX - seen;
  }

  clicked(event) {
    const number = Number(event.target.closest("li")?.dataset.step);
    if (!number || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    this.rove(number);
    this.send(event.target.closest(".compare") ? "compare" : "open", number);
  }

  /** A step dropped on another one is compared with it: the older one is A. */
  dragged(event) {
    this.held = Number(event.target.closest?.("li")?.dataset.step) || 0;
    event.dataTransfer.effectAllowed = "link";
    event.dataTransfer.setData("text/plain", `step ${this.held}`);
  }

  over(event) {
    const on = this.dropTarget(event);
    for (const { dom } of this.items.values()) dom.classList.toggle("drop", dom === on);
    if (on) event.preventDefault();
  }

  dropped(event) {
    const on = event && this.dropTarget(event);
    if (on) {
      event.preventDefault();
      this.compare(this.held, Number(on.dataset.step));
    }
    this.held = 0;
    for (const { dom } of this.items.values()) dom.classList.remove("drop");
  }

  dropTarget(event) {
    const item = event.target.closest?.("li");
    const row = this.byNumber.get(Number(item?.dataset.step));
    return this.held && row?.compare && row.n !== this.held ? item : null;
  }

  compare(one, other) {
    if (one && other && one !== other) this.send("compare", Math.max(one, other), Math.min(one, other));
  }

  pressed(event) {
    const number = this.focused();
    if (!number || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.findIndex((row) => row.n === number);
    const page = Math.max(1, Math.floor(this.dom.clientHeight / ROW_PX) - 1);
    const children = this.rows.filter((row) => row.parent === number);
    const to = {
      ArrowUp: this.rows[at - 1]?.n,
      ArrowDown: this.rows[at + 1]?.n,
      PageUp: this.rows[Math.max(0, at - page)]?.n,
      PageDown: this.rows[Math.min(this.rows.length - 1, at + page)]?.n,
      Home: this.rows[0]?.n,
      End: this.rows.at(-1)?.n,
      ArrowLeft: this.rows[at].parent || undefined,
      ArrowRight: (children.find((row) => row.best) ?? children.at(-1))?.n,
    };
    if (event.key === "Enter" && event.shiftKey) {
      if (this.byNumber.get(number).compare && this.byNumber.get(this.shown)?.compare) this.compare(this.shown, number);
    } else if (event.key === " ") {
      this.send("open", number);
    } else if (!(event.key in to)) {
      return;
    } else if (to[event.key]) {
      this.rove(to[event.key]);
      this.link(to[event.key]).focus({ preventScroll: true });
      this.reveal(to[event.key]);
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

export default function (component) {
  const parent = component.parentElement;
  if (!lists.has(parent)) lists.set(parent, new StepList(parent));
  lists.get(parent).receive(component);
}
