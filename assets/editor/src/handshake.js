// What this tab and the server know of each other's text. The text in the editor is never replaced while it holds
// typing the server has not seen: an answer older than what was sent is ignored, and a text that somebody else has
// changed meanwhile is offered, not imposed.
//
// The server's answer: {opening, ack, refused, version, text}. `opening` names this tab's visit to the editor,
// `ack` is the number of the last message the server has seen, `refused` whether it kept the text of that one out
// because the draft had changed, `version` names the draft's text. A message: {opening, seq, parent, text}, where
// `parent` is the version the typing began from.

const TYPING_PAUSE_MS = 350;
const ANSWER_WITHIN_MS = 5000;

export const lines = (text) => text.replace(/\r\n?/g, "\n").toWellFormed();

export class Handshake {
  /** `editor`: read() and write(text). `ports`: send(message), stash (a Stash), and changed(), told of every new state. */
  constructor(editor, ports) {
    Object.assign(this, { editor, ports });
    Object.assign(this, { opening: null, seq: 0, sent: null, synced: "", version: "", conflict: null, late: false });
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
    else if (answer.opening !== this.opening) this.#begunAgain(answer);
    else if (answer.ack < this.seq) return;
    if (this.sent !== null && answer.opening === this.opening && !answer.refused) this.synced = this.sent;
    this.sent = null;
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
    this.sent = text;
    this.seq += 1;
    clearTimeout(this.pause);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#again(), ANSWER_WITHIN_MS);
    return { opening: this.opening, seq: this.seq, parent: this.version, text };
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

  /** The editor leaves the page: nothing can be sent any more. What is not confirmed stays behind in this tab. */
  close(discarded) {
    if (this.dirty && !discarded && this.ran !== this.editor.read()) this.#keep();
    else this.ports.stash.drop();
    clearTimeout(this.pause);
    clearTimeout(this.waiting);
  }

  #begin(answer, theirs) {
    Object.assign(this, { opening: answer.opening, seq: answer.ack });
    this.#adopt(theirs, answer.version);
    const kept = this.ports.stash.get();
    if (!kept || kept.text === theirs) return;
    this.editor.write(kept.text);
    if (kept.upon !== theirs) this.version = kept.parent;
  }

  /** A server that does not know this tab: it was started again, or the connection was lost for long. */
  #begunAgain(answer) {
    Object.assign(this, { opening: answer.opening, seq: answer.ack, sent: null });
  }

  #settle(version, theirs) {
    const text = this.editor.read();
    if (theirs === text || theirs === this.synced || version === this.version) {
      Object.assign(this, { synced: theirs, version, conflict: null });
    } else if (text === this.synced) {
      this.#adopt(theirs, version);
    } else {
      this.conflict = { text: theirs, version };
    }
    if (!this.dirty) this.ports.stash.drop();
    else this.typed();
  }

  #adopt(text, version) {
    Object.assign(this, { synced: text, version });
    if (this.editor.read() !== text) this.editor.write(text);
  }

  #keep() {
    // Typing that follows a run goes on upon the text that was run, whatever the server has said so far.
    this.ports.stash.put({ text: this.editor.read(), parent: this.version, upon: this.sent ?? this.synced });
  }

  #again() {
    this.late = true;
    this.#keep();
    this.ports.send(this.message());
    this.ports.changed();
  }
}

/** Typing the server has not confirmed, kept by the browser for this tab: it survives a reload. */
export class Stash {
  constructor(name) {
    this.name = `cutegen-draft-${name}`;
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
