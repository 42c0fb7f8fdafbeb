// Keeps what is typed into any field of a page for this browser's tab from the first letter on, and puts it back after a
// reload. Streamlit sends a field's text to the server only when the field is left; a form's, when the form is sent; and
// a reload begins a new session at the server.
//
// 1. An entry is made while somebody types: {text, before, at}, where `before` is what the field showed first.
// 2. It is dropped when the server changes the field (its text was sent, or replaced by another), or when the field
//    shows again what it showed before.
// 3. The first time that a page shows the field, the text is put back and handed to the server. Where the field shows
//    something else by then, which another tab has typed, the text is offered. A field that is drawn anew before its
//    text was handed to the server counts as shown for the first time, also where it has another value by then.
//
// Fields are looked at once the page has drawn them to the end. Streamlit shows a field first and sets its text in a
// later task: what is put back in between is overwritten, and what is shown in between is not the server's text.

const FIELDS = '[data-testid="stTextArea"] textarea, [data-testid="stTextInput"] input';
const SECRET = '[type="password"], [autocomplete="off"], [autocomplete*="password"]';
const PREFIX = "cutegen-typed ";
const MOST = 40;
const OLDEST_MS = 24 * 3600 * 1000;
const SAID = 80;
// Safari may have no idle callbacks: there, after the tasks that wait when the frame is drawn.
const whenDrawn = globalThis.requestIdleCallback ?? ((act) => requestAnimationFrame(() => setTimeout(act)));
const TURN = /-turn-\d+/; // of a field that the server has replaced

const entries = {
  get(name) {
    try {
      return JSON.parse(sessionStorage.getItem(PREFIX + name));
    } catch {
      return null;
    }
  },
  put(name, entry) {
    try {
      sessionStorage.setItem(PREFIX + name, JSON.stringify(entry));
    } catch {
      // Full or forbidden: the text is as safe as in any other page.
    }
  },
  drop: (name) => sessionStorage.removeItem(PREFIX + name),
  names: () => Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX)).map((key) => key.slice(PREFIX.length)),
};

const page = () => `${location.pathname}?${new URLSearchParams(location.search).get("id") ?? ""}`;

/** The field's key, and its place in the box with that key; "" for a field without one. */
function keyOf(field) {
  const box = field.closest('[class*="st-key-"]');
  if (!box) return "";
  const key = Array.from(box.classList).find((name) => name.startsWith("st-key-"));
  return `${key} ${Array.from(box.querySelectorAll(FIELDS)).indexOf(field)}`;
}

/** The page and the field's key without its turn; "" for a field without one, or with a secret. */
function nameOf(field) {
  if (!field.matches?.(FIELDS) || field.matches(SECRET)) return "";
  const key = keyOf(field);
  return key && `${page()} ${key.replace(TURN, "")}`;
}

class Keeper {
  constructor() {
    this.live = new Map(); // name -> {field, before, left}, of fields that this page has shown
    for (const type of ["beforeinput", "input", "keydown", "focusout"]) {
      document.addEventListener(type, (event) => this[type](event.target, event), { capture: true });
    }
    addEventListener("pagehide", () => this.look()); // the last change may not have been looked at
    new MutationObserver(() => this.soon()).observe(document.body, { childList: true, subtree: true, attributes: true });
    this.clean();
    this.soon();
  }

  clean() {
    const found = entries.names().map((name) => ({ name, at: entries.get(name)?.at ?? 0 }));
    found.sort((one, other) => other.at - one.at);
    for (const [place, { name, at }] of found.entries()) {
      if (place >= MOST || Date.now() - at > OLDEST_MS) entries.drop(name);
    }
  }

  know(name, field, before) {
    this.live.set(name, { field, before, left: true });
  }

  beforeinput(field) {
    const name = nameOf(field);
    if (name && this.live.get(name)?.field !== field) this.know(name, field, field.value);
  }

  input(field) {
    const name = nameOf(field);
    const known = this.live.get(name);
    if (!name || known?.field !== field) return;
    known.left = false;
    if (this.offered?.name === name) this.offered.box.remove();
    if (field.value === known.before) entries.drop(name);
    else entries.put(name, { text: field.value, before: known.before, at: Date.now() });
  }

  /** Enter in a line and Ctrl+Enter hand the text over, too. */
  keydown(field, { key, ctrlKey, metaKey }) {
    if (key === "Enter" && (ctrlKey || metaKey || field instanceof HTMLInputElement)) this.focusout(field);
  }

  /** Streamlit sends what was typed, unless the field loses the focus because it is taken off the page. */
  focusout(field) {
    const known = this.live.get(nameOf(field));
    queueMicrotask(() => {
      if (known?.field === field && field.isConnected) known.left = true;
    });
  }

  /** Once, however much the page changes meanwhile. */
  soon() {
    if (this.asked || !entries.names().length) return;
    this.asked = true;
    whenDrawn(() => {
      this.asked = false;
      this.look();
    });
  }

  look() {
    const here = new Map(Array.from(document.querySelectorAll(FIELDS), (field) => [nameOf(field), field]));
    for (const name of entries.names()) {
      const field = here.get(name);
      if (!field || (this.offered?.name === name && this.offered.box.isConnected)) continue;
      const known = this.live.get(name);
      const isLost = known && known.field !== field && !known.left;
      if (known && !isLost && field.value !== entries.get(name).text) this.changed(name);
      else if (field.disabled) continue;
      else if (!known || isLost) this.first(name, field);
      else if (known.field !== field) this.know(name, field, known.before);
    }
  }

  /** By the server: the text was sent, or another one was put in its place. */
  changed(name) {
    entries.drop(name);
    this.live.delete(name);
    if (this.offered?.name === name) this.offered.box.remove();
  }

  first(name, field) {
    const { text, before } = entries.get(name);
    this.know(name, field, before);
    if (field.value === text) entries.drop(name);
    else if (field.value === before || field.value === "") this.putBack(field, text);
    else this.offer(name, field, text);
  }

  /** As if it was typed and the field left. The focus stays where it is: several fields may be put back at a time. */
  putBack(field, text) {
    const proto = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement.prototype : HTMLInputElement.prototype;
    Object.getOwnPropertyDescriptor(proto, "value").set.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    // React has to draw the text before it takes the leaving for its end.
    setTimeout(() => field.dispatchEvent(new FocusEvent("focusout", { bubbles: true })));
  }

  offer(name, field, text) {
    this.offered?.box.remove();
    const box = document.createElement("div");
    box.className = "cg-typed";
    box.setAttribute("role", "alert");
    const words = document.createElement("span");
    words.textContent = `Typed here, and changed elsewhere since: “${text.slice(0, SAID)}${text.length > SAID ? "…" : ""}”`;
    const close = () => box.remove();
    box.append(words, this.button("Put it back", close, () => this.putBack(field, text)));
    box.append(this.button("Drop it", close, () => entries.drop(name)));
    this.offered = { name, box };
    document.body.append(box);
  }

  button(label, close, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.addEventListener("click", () => {
      close();
      act();
    });
    return made;
  }
}

function keepTyping() {
  globalThis.cutegenTyping ??= new Keeper();
}
