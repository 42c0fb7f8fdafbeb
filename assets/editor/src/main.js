// Hands the editor to the small module that Streamlit runs at every drawing (pages/components/editor/code_editor.py):
// this file is large and goes to a browser once. `mount` may be called for the same element any number of times.

import { Editor } from "./editor.js";

const editors = new WeakMap();

/** The editor's bar stands elsewhere on the page; either may be there first. */
const bar = {
  place: null,
  dom: null,
  join(dom = this.dom, place = this.place) {
    Object.assign(this, { dom, place });
    if (dom && place) place.replaceChildren(dom);
  },
};

function mountBar({ parentElement }) {
  if (bar.place !== parentElement) bar.join(bar.dom, parentElement);
  return () => undefined;
}

function mount({ data, parentElement, setStateValue, setTriggerValue }) {
  const ports = { setStateValue, setTriggerValue };
  const editor = editors.get(parentElement);
  if (editor) {
    editor.ports = ports;
    editor.receive(data);
  } else {
    editors.set(parentElement, new Editor(parentElement, data, ports));
    bar.join(editors.get(parentElement).bar.dom);
  }
  // Streamlit also calls this after a drawing that was overtaken by the next one: only an element that has left the
  // page takes its editor along.
  return () => setTimeout(() => {
    if (parentElement.isConnected) return;
    editors.get(parentElement)?.destroy();
    editors.delete(parentElement);
  });
}

globalThis.cutegenEditor ??= Promise.withResolvers();
globalThis.cutegenEditor.resolve({ mount, mountBar });

export default () => undefined;
