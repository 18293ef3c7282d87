// Markdown within a line: code, emphasis, links. Makes nodes, never HTML.

import { el } from "./dom.js";

/** Emphasis within emphasis, at most; deeper is text. */
const DEPTH = 8;
const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];
const SPECIAL = /[\\`*_~[!\n]|https?:\/\//g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;

/** Nodes for a text. */
export function inline(text, depth = 0) {
  const out = [];
  // Marks that are known not to be closed, so that a text full of them is not searched for each.
  const open = new Set();
  let plain = "";
  let at = 0;
  const add = (node) => {
    if (plain) out.push(plain);
    plain = "";
    out.push(node);
  };
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const found = SPECIAL.exec(text);
    if (!found) break;
    plain += text.slice(at, found.index);
    at = found.index;
    const piece = special(text, at, { depth, open });
    if (piece.node) add(piece.node);
    else plain += piece.text;
    at += piece.length;
  }
  plain += text.slice(at);
  if (plain) out.push(plain);
  return out;
}

function special(text, at, state) {
  const here = text[at];
  if (here === "\\") return escaped(text, at);
  if (here === "\n") return { node: el("br"), length: 1 };
  if (here === "`") return code(text, at, state.open) ?? run(text, at, "`");
  if (here === "h") return address(text, at);
  if (here === "[" || here === "!") return link(text, at, state) ?? { text: here, length: 1 };
  return emphasis(text, at, state) ?? run(text, at, here);
}

function escaped(text, at) {
  const next = text[at + 1] ?? "";
  return PUNCTUATION.test(next) ? { text: next, length: 2 } : { text: "\\", length: 1 };
}

/** All of a run of the same character, as text. */
function run(text, at, character) {
  let end = at;
  while (text[end] === character) end += 1;
  return { text: text.slice(at, end), length: end - at };
}

function code(text, at, open) {
  const { text: mark } = run(text, at, "`");
  if (open.has(mark)) return null;
  let from = at + mark.length;
  for (;;) {
    const close = text.indexOf(mark, from);
    if (close < 0) break;
    const { length } = run(text, close, "`");
    if (length === mark.length) {
      const inner = text.slice(at + mark.length, close).replace(/\n/g, " ");
      const padded = inner.startsWith(" ") && inner.endsWith(" ") && /[^ ]/.test(inner);
      const trimmed = padded ? inner.slice(1, -1) : inner;
      return { node: el("code", {}, trimmed), length: close + length - at };
    }
    from = close + length;
  }
  open.add(mark);
  return null;
}

function emphasis(text, at, { depth, open }) {
  if (depth >= DEPTH) return null;
  for (const [mark, tag] of MARKS) {
    if (!text.startsWith(mark, at) || open.has(mark)) continue;
    const from = at + mark.length;
    if (/^\s|^$/.test(text.slice(from, from + 1))) continue;
    // A mark within a word, as in snake_case, is none.
    if (mark[0] === "_" && WORD.test(text[at - 1] ?? "")) continue;
    const close = closing(text, from, mark);
    if (close < 0) {
      open.add(mark);
      continue;
    }
    const children = inline(text.slice(from, close), depth + 1);
    return { node: el(tag, {}, ...children), length: close + mark.length - at };
  }
  return null;
}

function closing(text, from, mark) {
  for (let at = from + 1; at < text.length;) {
    const close = text.indexOf(mark, at);
    if (close < 0) return -1;
    const { length } = run(text, close, mark[0]);
    // Of a longer run the end closes: in **a *b*** the last two do.
    const end = close + length - mark.length;
    const fits = mark.length === 2 ? length >= 2 : length !== 2;
    const before = text[close - 1];
    const word = mark[0] === "_" && WORD.test(text[close + length] ?? "");
    if (fits && !/\s/.test(before) && before !== "\\" && !word) return end;
    at = close + length;
  }
  return -1;
}

/** `[text](address)`; an image becomes a link, since the page loads nothing from elsewhere. */
function link(text, at, { depth, open }) {
  const from = text[at] === "!" ? at + 1 : at;
  if (text[from] !== "[" || depth >= DEPTH || open.has("](")) return null;
  // No link has another bracket in its text, so that many of them are not all searched to the end.
  const inner = text.indexOf("[", from + 1);
  const length = text.slice(from, inner < 0 ? text.length : inner).indexOf("](");
  if (length < 0) {
    if (inner < 0) open.add("](");
    return null;
  }
  const middle = from + length;
  const end = addressEnd(text, middle + 2);
  const label = text.slice(from + 1, middle);
  if (end < 0) return null;
  const [href] = text.slice(middle + 2, end).trim().split(/\s+/, 1);
  const children = inline(label || href, depth + 1);
  const node = anchor(href, children) ?? el("span", {}, ...children);
  return { node, length: end + 1 - at };
}

/** Parentheses within each other in an address, at most. */
const PARENTHESES = 32;

/** Addresses may have parentheses in pairs, and an end to their length. */
function addressEnd(text, from) {
  let open = 0;
  for (let at = from; at < Math.min(text.length, from + 2000); at += 1) {
    if (text[at] === "\n") return -1;
    if (text[at] === "(") open += 1;
    if (open > PARENTHESES) return -1;
    if (text[at] === ")") {
      if (open === 0) return at;
      open -= 1;
    }
  }
  return -1;
}

function address(text, at) {
  const [href] = /^https?:\/\/[^\s<>"`]*/.exec(text.slice(at, at + 2000));
  let end = href.length;
  while (".,;:!?'*_~)]".includes(href[end - 1])) end -= 1;
  const bare = href.slice(0, end);
  const node = WORD.test(text[at - 1] ?? "") ? null : anchor(bare, [bare]);
  return node ? { node, length: bare.length } : { text: href, length: href.length };
}

/** A link, if the address is one of the web; null for javascript: and all else. */
function anchor(href, children) {
  let url;
  try {
    url = new URL(href);
  } catch {
    return null;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return null;
  const rel = "noopener noreferrer nofollow";
  return el("a", { href: url.href, target: "_blank", rel, title: url.href }, ...children);
}
