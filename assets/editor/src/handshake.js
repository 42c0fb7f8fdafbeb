// What this tab and the server know of each other's text. The text in the editor is never replaced while it holds
// typing the server has not seen: an answer older than what was sent is ignored. A text that was changed elsewhere
// meanwhile is joined with what was typed here where the two changes lie apart, and else offered, not imposed.
//
// The server's answer: {opening, ack, kept, version, text}. `opening` names this tab's visit to the editor, `ack` is the
// number of the last message the server has seen, `kept` of the last one whose text became the draft (a later one was
// refused because the draft had changed), `version` names the draft's text. A message: {opening, seq, upon, text}, where
// `upon` are the versions the typing follows: the last one the server confirmed, and all that this tab has sent since.
// What is joined has grown from the text that was kept last. So a tab is never in conflict with itself, whichever of
// its messages have arrived.

import { merge } from "./merge.js";
import { versionOf } from "./version.js";

const TYPING_PAUSE_MS = 350;
const ANSWER_WITHIN_MS = 8000;

export const lines = (text) => text.replace(/\r\n?/g, "\n").toWellFormed();

export class Handshake {
  /** `editor`: read() and write(text). `ports`: send(message), stash (a Stash), next(version), the one of the draft upon
   * the kernel of that text, joined(), told of a text that was joined with another, and changed(), told of every state. */
  constructor(editor, ports) {
    Object.assign(this, { editor, ports, opening: null, seq: 0, sent: null, conflict: null, late: false });
    Object.assign(this, { synced: null, version: null, pending: [] });
  }

  get dirty() {
    return this.editor.read() !== this.synced;
  }

  /** One of "saved", "typing", "sent", "late", "conflict". */
  get state() {
    if (this.conflict) return "conflict";
    if (this.late) return "late";
    if (!this.dirty) return "saved";
    return this.sent !== null && this.sent === this.editor.read() ? "sent" : "typing";
  }

  receive(answer) {
    const theirs = lines(answer.text);
    if (this.opening === null) this.#begin(answer, theirs);
    else if (answer.opening !== this.opening) this.#begunAgain(answer, theirs);
    else if (answer.ack < this.seq) return;
    else this.synced = this.pending.find(({ seq }) => seq === answer.kept)?.text ?? this.synced;
    this.sent = null;
    this.pending = [];
    this.late = false;
    clearTimeout(this.waiting);
    this.#settle(answer.version, theirs);
    this.ports.changed();
  }

  typed() {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.flush(), TYPING_PAUSE_MS);
    this.ports.changed();
  }

  /** Sends what has been typed, now. */
  flush() {
    clearTimeout(this.pause);
    const text = this.editor.read();
    if (this.opening === null || !this.dirty) return;
    this.#keep();
    if (this.conflict || this.sent === text) return;
    this.ports.send(this.message());
    this.ports.changed();
  }

  /** The text as it is now, numbered; the server's answer to it is waited for. */
  message() {
    const text = this.editor.read();
    const upon = this.#upon();
    this.sent = text;
    this.seq += 1;
    this.pending.push({ seq: this.seq, version: versionOf(text), text });
    clearTimeout(this.pause);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#again(), ANSWER_WITHIN_MS);
    return { opening: this.opening, seq: this.seq, upon, text };
  }

  takeTheirs() {
    const { text, version } = this.conflict;
    this.conflict = null;
    this.#adopt(text, version);
    this.ports.changed();
  }

  keepMine() {
    this.version = this.conflict.version;
    this.conflict = null;
    this.flush();
    this.ports.changed();
  }

  /** The text is handed over to be run: it need not be kept here when the editor closes upon it. */
  run() {
    this.ran = this.editor.read();
    return this.message();
  }

  /** The editor leaves the page: nothing can be sent any more. What is not confirmed stays behind in this tab; what was
   * typed on after a run goes on upon the kernel that was run. */
  close(discarded) {
    const text = this.editor.read();
    this.ports.stash.drop();
    if (this.dirty && !discarded && this.ran !== text) {
      const stash = this.ran === undefined ? this.ports.stash : this.ports.next(versionOf(this.ran));
      stash.put({ text, upon: this.#upon() });
    }
    clearTimeout(this.pause);
    clearTimeout(this.waiting);
  }

  #begin(answer, theirs) {
    Object.assign(this, { opening: answer.opening, seq: answer.ack });
    this.#adopt(theirs, answer.version);
    const kept = this.ports.stash.get();
    if (!kept || kept.text === theirs) return;
    this.editor.write(kept.text);
    if (!kept.upon.includes(answer.version)) Object.assign(this, { synced: null, version: null });
  }

  /** A server that does not know this tab: it was started again, or the connection was lost for long. */
  #begunAgain(answer, theirs) {
    Object.assign(this, { opening: answer.opening, seq: answer.ack });
    if (this.pending.some(({ version }) => version === answer.version)) this.synced = theirs;
  }

  #settle(version, theirs) {
    const text = this.editor.read();
    if (theirs === text || theirs === this.synced || version === this.version) {
      Object.assign(this, { synced: theirs, version, conflict: null });
    } else if (text === this.synced) {
      this.#adopt(theirs, version);
    } else {
      this.#join(version, theirs);
    }
    if (!this.dirty) this.ports.stash.drop();
    else this.typed();
  }

  #join(version, theirs) {
    const both = this.synced === null ? null : merge(this.synced, this.editor.read(), theirs);
    if (both === null) {
      this.conflict = { text: theirs, version };
      return;
    }
    Object.assign(this, { synced: theirs, version, conflict: null });
    this.editor.write(both);
    this.ports.joined();
  }

  #adopt(text, version) {
    Object.assign(this, { synced: text, version });
    if (this.editor.read() !== text) this.editor.write(text);
  }

  #upon() {
    return [this.version, ...this.pending.map(({ version }) => version)].filter(Boolean);
  }

  #keep() {
    this.ports.stash.put({ text: this.editor.read(), upon: this.#upon() });
  }

  #again() {
    this.late = true;
    this.#keep();
    this.ports.send(this.message());
    this.ports.changed();
  }
}

/** Something the browser keeps for this tab: it survives a reload. */
export class Stash {
  constructor(what, name) {
    this.name = `cutegen-${what}-${name}`;
  }

  get() {
    try {
      return JSON.parse(sessionStorage.getItem(this.name));
    } catch {
      return null;
    }
  }

  put(kept) {
    try {
      sessionStorage.setItem(this.name, JSON.stringify(kept));
    } catch {
      // Full or forbidden: the server's copy is the one that counts.
    }
  }

  drop() {
    try {
      sessionStorage.removeItem(this.name);
    } catch {
      // As above.
    }
  }
}
