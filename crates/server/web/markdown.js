// Shows a text of Markdown that grows. What is complete is left alone; only the last block is made
// again, and of a block of code only the text.

import { blocks } from "./blocks.js";
import { copyButton, el } from "./dom.js";
import { inline } from "./inline.js";

/** Quotes and lists within each other, at most; deeper is text. */
const DEPTH = 6;

/** A view of a text in `root`. */
export class MarkdownView {
  #root;
  #text = "";
  /** Where in the text the first block begins that may still change, and its number. */
  #from = 0;
  #settled = 0;

  constructor(root) {
    this.#root = root;
  }

  /** Shows `text`, of which the text shown before is the beginning. */
  update(text) {
    if (!text.startsWith(this.#text)) this.clear();
    this.#text = text;
    this.#settle();
    const rest = blocks(text.slice(this.#from));
    const nodes = this.#root.children;
    rest.forEach((block, index) => {
      const old = nodes[this.#settled + index];
      if (!old) this.#root.append(node(block, 0));
      else if (!renewed(old, block)) old.replaceWith(node(block, 0));
    });
    while (nodes.length > this.#settled + rest.length) this.#root.lastElementChild.remove();
  }

  /** Shows nothing. */
  clear() {
    this.#root.replaceChildren();
    [this.#text, this.#from, this.#settled] = ["", 0, 0];
  }

  /** A line that is not complete may still become anything, so the lines before it decide. */
  #settle() {
    const rest = this.#text.slice(this.#from);
    const found = blocks(rest.slice(0, rest.lastIndexOf("\n") + 1));
    if (found.length < 2) return;
    // What settles now was last shown when it was not complete.
    found.slice(0, -1).forEach((block, index) => {
      const old = this.#root.children[this.#settled + index];
      if (!old) this.#root.append(node(block, 0));
      else if (!renewed(old, block)) old.replaceWith(node(block, 0));
    });
    this.#settled += found.length - 1;
    this.#from += found.at(-1).start;
  }
}

/** Gives a block of code its new text in place: it keeps its scrolling and selection. */
function renewed(old, block) {
  if (block.kind !== "code" || old.dataset.language !== block.language) return false;
  const code = old.querySelector("code");
  const before = code.textContent;
  if (block.text === before) return true;
  if (!block.text.startsWith(before) || !code.firstChild) return false;
  code.firstChild.appendData(block.text.slice(before.length));
  return true;
}

function node(block, depth) {
  switch (block.kind) {
    case "heading": return el(`h${Math.min(block.level + 2, 6)}`, {}, ...inline(block.text));
    case "rule": return el("hr");
    case "code": return codeBlock(block);
    case "quote": return el("blockquote", {}, ...inner(block.text, depth));
    case "list": return list(block, depth);
    case "table": return table(block);
    default: return el("p", {}, ...inline(block.text));
  }
}

function inner(text, depth) {
  if (depth >= DEPTH) return [text];
  return blocks(text).map((block) => node(block, depth + 1));
}

function codeBlock({ language, text }) {
  const code = el("code");
  code.append(document.createTextNode(text));
  const copy = copyButton("Copy the code", () => code.textContent);
  const head = el("div", { class: "code-head" }, el("span", {}, language || "text"), copy);
  const block = el("div", { class: "code" }, head, el("pre", { tabIndex: 0 }, code));
  block.dataset.language = language;
  return block;
}

function list({ ordered, number, items }, depth) {
  const children = items.map((text) => {
    const nodes = inner(text, depth);
    // An item of one line is no paragraph, or short lists become long.
    const first = nodes[0];
    const tight = first?.tagName === "P" ? [...first.childNodes] : [first].filter(Boolean);
    return el("li", {}, ...tight, ...nodes.slice(1));
  });
  return ordered ? el("ol", { start: number }, ...children) : el("ul", {}, ...children);
}

function table({ head, align, rows }) {
  const cell = (tag) => (text, index) =>
    el(tag, { class: `to-${align[index] ?? "left"}` }, ...inline(text));
  const body = rows.map((row) => el("tr", {}, ...row.map(cell("td"))));
  return el("div", { class: "table", tabIndex: 0 }, el("table", {},
    el("thead", {}, el("tr", {}, ...head.map(cell("th")))), el("tbody", {}, ...body)));
}
