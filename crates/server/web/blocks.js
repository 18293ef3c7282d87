// Markdown's blocks: cuts a text into paragraphs, headings, lists, code, quotes, tables and rules.

// A line may be a long one, made to be slow. So no expression here has two neighbouring repetitions
// that may take the same characters; what would need them is read by hand.
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const RULE = /^ {0,3}([-*_])([ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$/s;
const DELIMITER = /^[ \t|:-]+$/;
const DELIMITER_CELL = /^:?-+:?$/;
/** Columns of a table, at most: short rows are filled up, so there can be far more cells than text. */
const COLUMNS = 100;

/** Blocks `{ kind, start, ... }` of a text, `start` being where each begins in it. */
export function blocks(text) {
  const lines = text.split("\n");
  const starts = [0];
  for (const line of lines) starts.push(starts.at(-1) + line.length + 1);
  const found = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const { block, next } = read(lines, at);
    found.push({ ...block, start: starts[at] });
    at = next;
  }
  return found;
}

function read(lines, at) {
  const line = lines[at];
  const opening = opensFence(line);
  if (opening) return fence(lines, at, opening);
  if (HEADING.test(line)) return { block: heading(line), next: at + 1 };
  if (RULE.test(line)) return { block: { kind: "rule" }, next: at + 1 };
  if (QUOTE.test(line)) return quote(lines, at);
  if (ITEM.test(line)) return list(lines, at);
  if (isTable(lines, at)) return table(lines, at);
  return paragraph(lines, at);
}

function heading(line) {
  const [start, marks] = HEADING.exec(line);
  // Marks may close it, too.
  const text = withoutEnd(withoutEnd(withoutEnd(line.slice(start.length), " \t"), "#"), " \t");
  return { kind: "heading", level: marks.length, text };
}

/** A text without the characters of `set` at its end. */
function withoutEnd(text, set) {
  let end = text.length;
  while (end > 0 && set.includes(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

/** The mark and the rest of a line that opens a block of code. */
function opensFence(line) {
  const found = FENCE.exec(line);
  const info = found && line.slice(found[0].length);
  return found && !info.includes("`") ? { mark: found[1], info } : null;
}

/** Whether a line closes a block of code: a mark as long as the one that opened it, or longer. */
function closesFence(line, mark) {
  const found = FENCE.exec(line);
  return found !== null && found[1][0] === mark[0] && found[1].length >= mark.length
    && withoutEnd(line, " \t").length === found[0].length;
}

function fence(lines, at, { mark, info }) {
  const indent = lines[at].search(/[`~]/);
  const inner = [];
  let next = at + 1;
  for (; next < lines.length && !closesFence(lines[next], mark); next += 1) {
    inner.push(lines[next].replace(new RegExp(`^ {0,${indent}}`), ""));
  }
  const language = info.trim().split(/\s/, 1)[0].slice(0, 30);
  return { block: { kind: "code", language, text: inner.join("\n") }, next: next + 1 };
}

function quote(lines, at) {
  const inner = [];
  let next = at;
  while (next < lines.length && QUOTE.test(lines[next])) {
    inner.push(lines[next].replace(QUOTE, ""));
    next += 1;
  }
  return { block: { kind: "quote", text: inner.join("\n") }, next };
}

const isOrdered = (marker) => /\d/.test(marker);

function list(lines, at) {
  const [, , first] = ITEM.exec(lines[at]);
  const ordered = isOrdered(first);
  const items = [];
  let [indent, next] = [0, at];
  while (next < lines.length) {
    const line = lines[next];
    const item = RULE.test(line) ? null : ITEM.exec(line);
    const sibling = items.length === 0 || (item && item[1].length < indent);
    if (item && isOrdered(item[2]) === ordered && sibling) {
      indent = item[1].length + item[2].length + 1;
      items.push([item[3] ?? ""]);
    } else if (line.trim() === "") {
      if (!continues(lines, next, { indent, ordered })) break;
      // All empty lines at once, or each would look through those behind it.
      for (; lines[next + 1].trim() === ""; next += 1) items.at(-1).push("");
      items.at(-1).push("");
    } else if (line.search(/\S/) >= Math.min(indent, 2)) {
      items.at(-1).push(unindented(line, indent));
    } else if (lines[next - 1].trim() !== "" && !begins(line)) {
      items.at(-1).push(line);
    } else break;
    next += 1;
  }
  const number = ordered ? Number.parseInt(first, 10) : 1;
  const texts = items.map((item) => item.join("\n"));
  return { block: { kind: "list", ordered, number, items: texts }, next };
}

/** Whether a list goes on behind empty lines. */
function continues(lines, at, { indent, ordered }) {
  while (at < lines.length && lines[at].trim() === "") at += 1;
  if (at === lines.length) return false;
  const item = ITEM.exec(lines[at]);
  if (item) return isOrdered(item[2]) === ordered || item[1].length >= indent;
  return lines[at].search(/\S/) >= Math.min(indent, 2);
}

function unindented(line, indent) {
  return line.slice(Math.min(indent, line.search(/\S/)));
}

/** Whether a line begins a block of its own in the middle of a paragraph. */
function begins(line) {
  const item = ITEM.exec(line);
  // As everywhere in Markdown, only a list from 1 may follow a line directly.
  const listed = item !== null && (!isOrdered(item[2]) || Number.parseInt(item[2], 10) === 1);
  return opensFence(line) !== null || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)
    || listed;
}

function paragraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== "" && !begins(lines[next])
    && !isTable(lines, next)) next += 1;
  const text = lines.slice(at, next).map((line) => line.trim()).join("\n");
  return { block: { kind: "paragraph", text }, next };
}

function isTable(lines, at) {
  const under = lines[at + 1];
  if (!lines[at].includes("|") || under === undefined || !DELIMITER.test(under)) return false;
  const delimiters = cells(under);
  return delimiters.length <= COLUMNS && delimiters.every((cell) => DELIMITER_CELL.test(cell))
    && cells(lines[at]).length === delimiters.length;
}

function table(lines, at) {
  const head = cells(lines[at]);
  const align = cells(lines[at + 1]).map((cell) => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
    return "left";
  });
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|")) {
    const row = cells(lines[next]).slice(0, head.length);
    rows.push([...row, ...Array(head.length - row.length).fill("")]);
    next += 1;
  }
  return { block: { kind: "table", head, align, rows }, next };
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}
