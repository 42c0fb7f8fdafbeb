(() => {
  "use strict";
  const INTERVAL_MS = 8000;
  const root = document.documentElement;
  const sections = [...document.querySelectorAll("main > section")];
  const links = [...document.querySelectorAll(".ex-stop")];
  const button = (name) => document.querySelector(`[data-do="${name}"]`);
  let at = 0;
  let timer = 0;

  function show(index, keepAddress) {
    at = Math.max(0, Math.min(sections.length - 1, index));
    sections.forEach((section, i) => section.classList.toggle("ex-shown", i === at));
    links.forEach((link, i) => (i === at ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current")));
    links[at].scrollIntoView({ block: "nearest", inline: "nearest" });
    if (root.classList.contains("ex-playing")) window.scrollTo(0, 0);
    else sections[at].scrollIntoView({ block: "start" });
    if (!keepAddress) history.replaceState(null, "", `#${sections[at].id}`);
  }

  function play(on) {
    clearInterval(timer);
    timer = on ? setInterval(() => (at + 1 < sections.length ? show(at + 1) : play(false)), INTERVAL_MS) : 0;
    button("play").textContent = on ? "Pause" : "Play";
    if (on && at + 1 === sections.length) show(0);
  }

  function pane(name) {
    document.body.dataset.pane = name;
    for (const one of ["change", "kernel", "speed"]) button(one).setAttribute("aria-pressed", String(one === name));
  }

  function slides(on) {
    root.classList.toggle("ex-playing", on);
    button("report").setAttribute("aria-pressed", String(!on));
    // A closed <details> would hide the kernel of a slide; in the report it is folded again.
    for (const kernel of document.querySelectorAll("details.pr-kernel")) kernel.open = on;
    show(at, true);
  }

  function theme() {
    const dark = root.dataset.scheme ? root.dataset.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.scheme = dark ? "light" : "dark";
  }

  function step(to) {
    play(false);
    show(to);
  }

  const actions = {
    back: () => step(at - 1), next: () => step(at + 1), first: () => step(0), last: () => step(sections.length - 1),
    play: () => play(!timer), change: () => pane("change"), kernel: () => pane("kernel"), speed: () => pane("speed"),
    theme, report: () => slides(!root.classList.contains("ex-playing")),
  };
  const keys = {
    ArrowLeft: "back", PageUp: "back", ArrowRight: "next", PageDown: "next", Home: "first", End: "last", " ": "play",
    1: "change", 2: "kernel", 3: "speed", t: "theme", o: "report",
  };

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    // A summary or a link under the focus keeps its own Space.
    if (!action || (event.key === " " && event.target.closest("summary"))) return;
    event.preventDefault();
    actions[action]();
  });
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-do]");
    if (!pressed) return;
    pressed.blur();
    actions[pressed.dataset.do]();
  });
  function follow() {
    const named = sections.findIndex((section) => `#${section.id}` === location.hash);
    if (named >= 0) show(named, true);
  }
  addEventListener("hashchange", follow);

  document.querySelector(".ex-keys").hidden = false;
  pane("change");
  slides(true);
  follow();
})();
