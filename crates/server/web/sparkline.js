// A small curve of the latest values.

import { svg } from "./dom.js";

const [WIDTH, HEIGHT] = [120, 34];

/** A curve of at most `most` values, from 0 to the largest (or to `top`, if that is given). */
export class Sparkline {
  #values = [];
  #curve = svg("path", { class: "curve", "vector-effect": "non-scaling-stroke" });
  #area = svg("path", { class: "area" });

  constructor({ most = 120, top = 0, look = "" } = {}) {
    [this.most, this.top] = [most, top];
    this.root = svg("svg", {
      class: `spark ${look}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none",
      "aria-hidden": "true",
    }, this.#area, this.#curve);
  }

  /** Adds a value; null, where there is none, goes on as before. */
  push(value) {
    this.#values.push(value ?? this.#values.at(-1) ?? 0);
    if (this.#values.length > this.most) this.#values.shift();
    this.#draw();
  }

  #draw() {
    const top = this.top || Math.max(...this.#values, 1e-9);
    const step = WIDTH / (this.most - 1);
    const first = WIDTH - (this.#values.length - 1) * step;
    const point = (value, index) => {
      const y = HEIGHT - 1 - (value / top) * (HEIGHT - 2);
      return `${(first + index * step).toFixed(1)} ${y.toFixed(1)}`;
    };
    const line = this.#values.map(point).join("L");
    this.#curve.setAttribute("d", `M${line}`);
    this.#area.setAttribute("d", `M${first.toFixed(1)} ${HEIGHT}L${line}L${WIDTH} ${HEIGHT}Z`);
  }
}
