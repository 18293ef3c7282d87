// The dialog with the settings.

import { models } from "./api.js";
import { el, iconButton } from "./dom.js";
import { change, settings } from "./settings.js";

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"];
const NUMBERS = [
  ["temperature", "Temperature", { min: 0, max: 5, step: "any" }],
  ["top_p", "Top p", { min: 0, max: 1, step: "any" }],
  ["top_k", "Top k", { min: 0, step: 1 }],
  ["min_p", "Min p", { min: 0, max: 1, step: "any" }],
  ["max_tokens", "Max tokens", { min: 1, step: 1 }],
  ["seed", "Seed", { min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 }],
];

const dialog = document.getElementById("settings");

/** Shows the settings; `field` is the one to begin with. */
export function openSettings(field = "system") {
  const form = build(settings());
  dialog.replaceChildren(form);
  dialog.showModal();
  form.elements[field].focus();
  offerModels(form.elements.model);
}

// A click beside the dialog closes it; inside, its form is what is clicked.
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

function build(values) {
  const close = iconButton("close", "Close", () => dialog.close());
  const form = el("form", { class: "settings", on: { submit: keep } },
    el("header", {}, el("h2", { id: "settings-title" }, "Settings"), close),
    labelled("Model", choice("model", [["", "the one that is served"]], values.model)),
    labelled("System prompt", el("textarea", { name: "system", rows: 4, value: values.system })),
    labelled("Reasoning effort", choice("reasoning_effort",
      [["", "as the model does"], ...EFFORTS.map((it) => [it, it])], values.reasoning_effort)),
    el("div", { class: "grid" }, ...NUMBERS.map(([name, label, limits]) =>
      labelled(label, number(name, values[name], limits)))),
    labelled("API key", el("input", {
      name: "key", type: "password", autocomplete: "off", value: values.key,
      placeholder: "only if the server asks for one",
    })),
    el("label", { class: "check" },
      el("input", { type: "checkbox", name: "keepKey", checked: values.keepKey }),
      "Keep the key in this browser"),
    el("footer", {},
      el("button", { type: "button", class: "quiet", on: { click: () => reset(form) } },
        "Reset"),
      el("button", { class: "main" }, "Save")));
  return form;
}

function labelled(label, input) {
  return el("label", {}, el("span", {}, label), input);
}

function number(name, value, limits) {
  return el("input", { name, type: "number", value, placeholder: "default", ...limits });
}

function choice(name, options, value) {
  const known = options.some(([it]) => it === value) ? options : [...options, [value, value]];
  return el("select", { name }, ...known.map(([it, label]) =>
    el("option", { value: it, selected: it === value }, label)));
}

async function offerModels(select) {
  try {
    for (const name of await models()) {
      const known = [...select.options].some((option) => option.value === name);
      if (!known) select.append(el("option", { value: name }, name));
    }
  } catch {
    // Without the list the served model can still be used.
  }
}

function reset(form) {
  for (const input of form.elements) {
    if (input.name === "keepKey" || input.name === "key") continue;
    if (input.name) input.value = "";
  }
}

function keep(event) {
  event.preventDefault();
  const form = event.target;
  const text = [...form.elements].filter((input) => input.name && input.type !== "checkbox");
  const values = Object.fromEntries(text.map((input) => [input.name, input.value]));
  change({ ...values, keepKey: form.elements.keepKey.checked });
  dialog.close();
  dialog.dispatchEvent(new Event("saved"));
}
