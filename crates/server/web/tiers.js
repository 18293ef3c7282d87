// A kind of memory as the monitor shows it: a bar of what lies there, and a word on each part.

import { el } from "./dom.js";
import { bytes } from "./format.js";

const NAMES = { gpu: "GPU", ram: "RAM", file: "Model file" };

/** Names and looks of what lies there; what is not listed has its own name. */
const PARTS = {
  weights: ["weights", "weights"],
  experts: ["experts", "weights"],
  keys_and_values: ["keys and values", "kv"],
  prompt_cache: ["prompt cache", "cache"],
  states_and_buffers: ["states and buffers", "kv"],
  other: ["program, states, buffers", "other"],
};

const text = (value) => bytes(value).join(" ");

/** A row for a tier of the status. */
export function tierView(tier) {
  const { name, used_bytes: used, limit_bytes: limit, available_bytes: left } = tier;
  const most = Math.max(limit ?? used, 1);
  const parts = Object.entries(tier.holds).filter(([, held]) => held > 0);
  const room = [limit === null ? null : `of ${text(limit)}`,
    left === null ? null : `${text(left)} available`].filter((it) => it !== null);
  return el("div", { class: "tier" },
    el("div", { class: "top" }, el("span", { class: "name" }, NAMES[name] ?? name),
      el("span", { class: "num" }, text(used)), el("span", { class: "room num" }, room.join(", "))),
    el("div", { class: "stack" }, ...parts.map(([what, held]) => segment(what, held / most))),
    el("div", { class: "legend" }, ...parts.map(([what, held]) => entry(what, held))));
}

function look(what) {
  return PARTS[what]?.[1] ?? "other";
}

function segment(what, share) {
  const part = el("i", { class: look(what) });
  part.style.width = `${100 * Math.min(1, share)}%`;
  return part;
}

function entry(what, held) {
  return el("span", { class: look(what) }, PARTS[what]?.[0] ?? what.replaceAll("_", " "), " ",
    el("b", { class: "num" }, text(held)));
}
