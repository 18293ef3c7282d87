// One message as it is shown.

import { copyButton, el, iconButton } from "./dom.js";
import { MarkdownView } from "./markdown.js";

const ENDS = {
  length: "stopped at the limit of tokens",
  repetition: "stopped: it went round in circles",
  stopped: "stopped",
};

/** A message of the user: text, and a way to change it. */
export function userView(message, { onEdit }) {
  const text = el("div", { class: "bubble" }, message.content);
  const root = el("article", { class: "message user", "aria-label": "You" }, text);
  const tools = el("div", { class: "tools" },
    iconButton("edit", "Edit and ask again", () => edit(root, message, onEdit)),
    copyButton("Copy", () => message.content));
  root.append(tools);
  return root;
}

function edit(root, message, onEdit) {
  const before = [...root.childNodes];
  const area = el("textarea", { value: message.content, "aria-label": "Edit the message" });
  area.rows = Math.min(12, message.content.split("\n").length + 1);
  const back = () => {
    root.replaceChildren(...before);
    root.querySelector("button").focus();
  };
  const send = () => area.value.trim() !== "" && onEdit(area.value.trim());
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      back();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  root.replaceChildren(el("div", { class: "editor" }, area, el("div", { class: "row" },
    el("button", { class: "quiet", type: "button", on: { click: back } }, "Cancel"),
    el("button", { class: "main", type: "button", on: { click: send } }, "Ask again"))));
  area.focus();
}

/** An answer, which may still grow. */
export class AnswerView {
  #message;
  #thinking = document.createTextNode("");
  #summary = el("summary");
  #fold;
  #answer = el("div", { class: "markdown" });
  #markdown = new MarkdownView(this.#answer);
  #foot = el("p", { class: "foot" });
  #fault = el("div", { class: "fault", hidden: true });
  #dots = el("div", { class: "dots", "aria-label": "Waiting for the first token" },
    el("i"), el("i"), el("i"));

  constructor(message, { onRedo, onKey }) {
    this.#message = message;
    this.#fold = el("details", { class: "thinking", hidden: true }, this.#summary,
      el("div", { class: "thoughts" }, this.#thinking));
    this.onKey = onKey;
    this.onRedo = onRedo;
    const tools = el("div", { class: "tools" },
      copyButton("Copy", () => message.content),
      iconButton("redo", "Answer again", onRedo));
    this.root = el("article", { class: "message answer", "aria-label": "Answer" },
      this.#fold, this.#answer, this.#dots, this.#fault,
      el("div", { class: "end" }, tools, this.#foot));
  }

  /** Shows the message as it is now. */
  update({ running }) {
    const { content, reasoning = "", error } = this.#message;
    this.root.setAttribute("aria-busy", running);
    this.root.classList.toggle("running", running);
    this.#think(reasoning, running && content === "");
    this.#markdown.update(content);
    this.#dots.hidden = !running || content !== "" || reasoning !== "";
    this.#foot.textContent = running ? "" : foot(this.#message);
    this.#showFault(running ? null : error);
  }

  #think(text, now) {
    this.#fold.hidden = text === "";
    this.#fold.classList.toggle("now", now);
    const seconds = this.#message.thought;
    const past = seconds === undefined ? "Thoughts" : `Thought for ${time(seconds)}`;
    const said = now ? "Thinking" : past;
    if (this.#summary.textContent !== said) this.#summary.textContent = said;
    const shown = this.#thinking.data;
    if (text.startsWith(shown)) this.#thinking.appendData(text.slice(shown.length));
    else this.#thinking.data = text;
  }

  #showFault(error) {
    this.#fault.hidden = !error;
    if (!error) return;
    const button = error.kind === "key"
      ? el("button", { class: "main", type: "button", on: { click: this.onKey } }, "Enter the key")
      : el("button", { class: "quiet", type: "button", on: { click: this.onRedo } }, "Try again");
    this.#fault.replaceChildren(el("p", {}, error.message), button);
  }
}

function foot({ finish, tokens, speed }) {
  const parts = [];
  if (tokens !== undefined) parts.push(`${tokens} tokens`);
  if (speed) parts.push(`${speed.toFixed(speed < 10 ? 1 : 0)} tokens/s`);
  if (ENDS[finish]) parts.push(ENDS[finish]);
  return parts.join(" \u00b7 ");
}

function time(seconds) {
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}
