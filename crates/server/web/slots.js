// A slot as the monitor shows it.

import { el } from "./dom.js";
import { brief, count, duration } from "./format.js";

const STATES = { free: "free", prompt: "reads", answer: "answers" };

/** A card for a slot of the status. */
export function slotView(slot, index) {
  const age = slot.age_seconds === undefined ? "" : duration(slot.age_seconds);
  const done = slot.state === "prompt" ? slot.done_tokens / slot.prompt_tokens : null;
  return el("div", { class: `slot ${slot.state}` },
    el("div", { class: "top" },
      el("span", { class: "state" }, `${index + 1}: ${STATES[slot.state] ?? slot.state}`),
      el("span", { class: "age num" }, age)),
    el("div", { class: "tokens num" }, tokens(slot)),
    done === null ? null : bar(done));
}

function tokens(slot) {
  if (slot.state === "prompt") {
    return `${count(slot.done_tokens)} of ${count(slot.prompt_tokens)} tokens`;
  }
  if (slot.state === "answer") {
    const speed = slot.seconds > 0.2 ? `, ${brief(slot.generated_tokens / slot.seconds)}/s` : "";
    return `prompt ${count(slot.prompt_tokens)}, answer ${count(slot.generated_tokens)}${speed}`;
  }
  return slot.held_tokens > 0 ? `${count(slot.held_tokens)} tokens kept for reuse` : "empty";
}

function bar(done) {
  const inner = el("i");
  inner.style.width = `${100 * done}%`;
  return el("div", { class: "meter second" }, inner);
}
