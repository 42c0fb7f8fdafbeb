// A card beside one part of the page after another. It lies in the page's own body, since it points at parts that
// other components drew; the part that it is about has a frame. Texts are set as text, never as markup.

const GAP_PX = 10;
const tours = new WeakMap();

function made(name, className, text) {
  const element = document.createElement(name);
  element.className = className;
  if (text) element.textContent = text;
  return element;
}

class Tour {
  constructor(stops) {
    this.stops = stops;
    this.at = 0;
    this.frame = made("div", "cg-tour-frame");
    this.card = made("div", "cg-tour");
    this.card.setAttribute("role", "dialog");
    this.card.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leave();
    });
    this.title = made("h2", "cg-tour-title");
    this.text = made("p", "cg-tour-text");
    this.count = made("span", "cg-tour-count");
    this.next = made("button", "cg-tour-next cg-primary");
    this.skip = made("button", "cg-tour-skip", "Skip the tour");
    this.next.addEventListener("click", () => this.go());
    this.skip.addEventListener("click", () => this.leave());
    const row = made("div", "cg-tour-row");
    row.append(this.count, this.skip, this.next);
    this.card.append(this.title, this.text, row);
    this.place = this.place.bind(this);
    this.timer = setInterval(this.place, 250); // the page is drawn piece by piece, and redrawn
  }

  target() {
    return document.querySelector(this.stops[this.at].at);
  }

  place() {
    const target = this.target();
    if (!target) return;
    if (!this.card.isConnected) {
      document.body.append(this.frame, this.card);
      this.show();
    }
    const box = target.getBoundingClientRect();
    const [width, height] = [this.card.offsetWidth, this.card.offsetHeight];
    this.frame.hidden = !box.width; // in a narrow window only one pane is shown
    if (!box.width) {
      Object.assign(this.card.style, { left: `${(innerWidth - width) / 2}px`, top: `${(innerHeight - height) / 2}px` });
      return;
    }
    const top = Math.max(0, box.top);
    const bottom = Math.min(innerHeight, box.bottom);
    const right = box.right + GAP_PX + width < innerWidth;
    const left = box.left - GAP_PX - width > 0;
    const x = right ? box.right + GAP_PX : left ? box.left - GAP_PX - width : Math.max(GAP_PX, box.left);
    const beside = right || left;
    const y = beside ? top : bottom + GAP_PX + height < innerHeight ? bottom + GAP_PX : Math.max(GAP_PX, top - GAP_PX - height);
    Object.assign(this.card.style, { left: `${x}px`, top: `${Math.min(y, innerHeight - height - GAP_PX)}px` });
    Object.assign(this.frame.style, {
      left: `${box.left - 3}px`, top: `${top - 3}px`, width: `${box.width + 6}px`, height: `${bottom - top + 6}px`,
    });
  }

  show() {
    const { title, text } = this.stops[this.at];
    const last = this.at + 1 === this.stops.length;
    this.card.setAttribute("aria-label", `Guided tour, ${this.at + 1} of ${this.stops.length}`);
    this.title.textContent = title;
    this.text.textContent = text;
    this.count.textContent = `${this.at + 1} of ${this.stops.length}`;
    this.next.textContent = last ? "Done" : "Next";
    this.skip.hidden = last;
    this.next.focus({ preventScroll: true });
  }

  go() {
    do this.at += 1;
    while (this.at < this.stops.length && !this.target());
    if (this.at >= this.stops.length) return this.leave();
    this.send("next");
    this.show();
    this.place();
  }

  leave() {
    this.send("over");
    this.end();
  }

  end() {
    clearInterval(this.timer);
    this.card.remove();
    this.frame.remove();
    this.over = true;
  }
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  let tour = tours.get(parentElement);
  if (!tour) tours.set(parentElement, (tour = new Tour(data.stops)));
  tour.send = (answer) => setStateValue("answer", answer);
  return () => {
    tour.end();
    tours.delete(parentElement);
  };
}
