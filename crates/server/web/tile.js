// A figure with its name, a word of detail, and a curve or a bar.

import { el } from "./dom.js";
import { Sparkline } from "./sparkline.js";

/** `of(now, before)` gives `{ value, unit, detail, point }`; the point is what is drawn. */
export class Tile {
  #value = el("span");
  #unit = el("span", { class: "unit" });
  #detail = el("span", { class: "detail" });
  #bar = el("i");
  #curve = null;

  constructor({ label, look, top, meter, of }) {
    this.of = of;
    if (!meter) this.#curve = new Sparkline({ look, top });
    this.root = el("div", { class: "tile" }, el("span", { class: "label" }, label),
      el("span", { class: "value" }, this.#value, " ", this.#unit), this.#detail,
      this.#curve?.root ?? el("div", { class: `meter ${look}` }, this.#bar));
  }

  /** Shows the status. */
  update(now, before) {
    const { value, unit, detail, point } = this.of(now, before);
    this.#value.textContent = value;
    this.#unit.textContent = unit;
    this.#detail.textContent = detail;
    if (this.#curve) this.#curve.push(point);
    else this.#bar.style.width = `${100 * Math.min(1, point ?? 0)}%`;
  }
}
