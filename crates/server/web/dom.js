// Making elements. Text always goes in as text: nothing in these files parses HTML.

/** An element with properties and children; strings become text nodes, null is left out. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") node.className = value;
    else if (name === "on") listen(node, value);
    else if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function listen(node, handlers) {
  for (const [type, handler] of Object.entries(handlers)) node.addEventListener(type, handler);
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A drawing of the page's sprite. */
export function icon(name) {
  return svg("svg", { "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

/** A button that shows a drawing and is named by `label`. */
export function iconButton(name, label, action) {
  return el("button", {
    class: "icon", type: "button", title: label, "aria-label": label, on: { click: action },
  }, icon(name));
}

/** A button that copies what `text()` gives, and shows that it did. */
export function copyButton(label, text) {
  const button = iconButton("copy", label, async () => {
    const done = await copy(text());
    button.replaceChildren(icon(done ? "check" : "close"));
    announce(done ? "Copied" : "The browser did not let the page copy");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS browsers keep the clipboard from pages; the old way still works there.
    const area = el("textarea", { class: "unseen", value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Tells those who cannot see the page. */
export function announce(text) {
  document.getElementById("announce").textContent = text;
}

/** Offers a file to save. */
export function save(name, value) {
  const blob = new Blob([JSON.stringify(value, null, 2)], { type: "application/json" });
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
