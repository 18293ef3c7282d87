// The settings: what requests say beside the messages. Kept in the browser; the key only on wish.

const NAME = "tuff.settings";
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

/** Empty texts leave a setting to the server. */
const EMPTY = {
  model: "", system: "", reasoning_effort: "", key: "", keepKey: false,
  ...Object.fromEntries(NUMBERS.map((name) => [name, ""])),
};

let current = load();

function load() {
  let found = null;
  try {
    found = JSON.parse(localStorage.getItem(NAME));
  } catch {
    // Whatever is there is not ours.
  }
  const fits = ([name, value]) => name in EMPTY && typeof value === typeof EMPTY[name];
  return { ...EMPTY, ...Object.fromEntries(Object.entries(found ?? {}).filter(fits)) };
}

/** All settings as they stand in the form. */
export function settings() {
  return { ...current };
}

/** Takes new settings. */
export function change(values) {
  current = { ...EMPTY, ...values };
  const kept = { ...current, key: current.keepKey ? current.key : "" };
  try {
    localStorage.setItem(NAME, JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing has them until the page is left.
  }
}

/** The API key, or "". */
export function apiKey() {
  return current.key.trim();
}

/** The fields of a request that the settings decide. */
export function fields() {
  const set = {};
  if (current.model) set.model = current.model;
  if (current.reasoning_effort) set.reasoning_effort = current.reasoning_effort;
  for (const name of NUMBERS) {
    if (current[name].trim() !== "") set[name] = Number(current[name]);
  }
  return set;
}
