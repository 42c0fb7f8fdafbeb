// Links the lines of the source with their instructions, both ways, as Compiler Explorer does: pointing at one marks the
// others, a click goes there. It reads classes and ids of the page's own tables and writes nothing but classes.

const SASS = ".st-key-sass-pane";
const SOURCE = ".st-key-code-pane";
const MARK = "cg-linked";

function lineOf(target) {
  const row = target instanceof Element ? target.closest(`${SASS} tr, ${SOURCE} tr`) : null;
  const named = row && (row.className.match(/\bcg-at-(\d+)/) ?? row.querySelector("td[id^=L]")?.id.match(/^L(\d+)$/));
  return named ? Number(named[1]) : 0;
}

function rowsOf(line) {
  const source = document.querySelector(`${SOURCE} [id="L${line}"]`)?.closest("tr");
  const machine = [...document.querySelectorAll(`${SASS} tr.cg-at-${line}`)];
  return { source, machine };
}

function mark(line) {
  for (const row of document.querySelectorAll(`.${MARK}`)) row.classList.remove(MARK);
  const { source, machine } = rowsOf(line);
  if (!line || !machine.length) return;
  for (const row of [source, ...machine]) row?.classList.add(MARK);
}

function reveal(row) {
  const pane = row?.closest(`${SASS}, ${SOURCE}`);
  if (!pane) return;
  const above = row.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  pane.scrollTo({ top: pane.scrollTop + above - pane.clientHeight / 3 });
}

function clicked(event) {
  const line = lineOf(event.target);
  if (!line || !document.getSelection().isCollapsed) return;
  const { source, machine } = rowsOf(line);
  const from = event.target.closest(SASS);
  if (from && !source) return; // a line that is folded in the difference: the link itself still leads there
  if (event.target.closest("a.cg-to-line")) event.preventDefault();
  mark(line);
  reveal(from ? source : machine[0]);
}

const pointed = (event) => mark(lineOf(event.target));

const placed = new WeakSet();

/** At first sight the source is where the kernel's instructions come from. */
function place(parent) {
  if (placed.has(parent)) return;
  placed.add(parent);
  const first = document.querySelector(`${SASS} tr[class*=cg-at-]`);
  const line = first && !document.querySelector(`${SOURCE} .cg-ln:target`) ? lineOf(first) : 0;
  if (line) reveal(rowsOf(line).source);
}

export default function links({ parentElement }) {
  place(parentElement);
  const heard = { mouseover: pointed, focusin: pointed, click: clicked };
  for (const [name, act] of Object.entries(heard)) document.addEventListener(name, act);
  return () => {
    for (const [name, act] of Object.entries(heard)) document.removeEventListener(name, act);
    mark(0);
  };
}
