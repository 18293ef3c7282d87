// Puts the parts of the page together: tabs, notices, keys, and what is there at the start.

import { status } from "./api.js";
import { Chat } from "./chat.js";
import { Monitor } from "./monitor.js";
import { openSettings } from "./settings-dialog.js";
import { Side } from "./side.js";
import * as store from "./store.js";
import { startTheme } from "./theme.js";

const TABS = ["chat", "monitor"];
const byId = (id) => document.getElementById(id);

let noticeEnd = 0;

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = false;
  clearTimeout(noticeEnd);
  noticeEnd = setTimeout(() => { byId("notice").hidden = true; }, 6000);
}

const monitor = new Monitor(byId("monitor"));
const chat = new Chat({
  changed: () => side.show(),
  notice,
  key: () => byId("settings").open || openSettings("key"),
});
const side = new Side(chat);

function select(tab, focus = false) {
  for (const name of TABS) {
    const button = byId(`tab-${name}`);
    button.setAttribute("aria-selected", name === tab);
    button.tabIndex = name === tab ? 0 : -1;
    byId(name).hidden = name !== tab;
    if (focus && name === tab) button.focus();
  }
  document.body.dataset.tab = tab;
  side.toggle(false);
  monitor.show(tab === "monitor");
  history.replaceState(null, "", tab === "chat" ? "/" : `/#${tab}`);
}

for (const [index, name] of TABS.entries()) {
  const button = byId(`tab-${name}`);
  button.addEventListener("click", () => select(name));
  button.addEventListener("keydown", ({ key }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (step) select(TABS.at((index + step) % TABS.length), true);
  });
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || byId("settings").open || event.defaultPrevented) return;
  if (document.body.classList.contains("side-open")) side.toggle(false);
  else chat.stop();
});

byId("open-settings").addEventListener("click", () => openSettings());
byId("settings").addEventListener("saved", () => greet());

/** Finds out who answers; asks for the key if one is needed. */
async function greet() {
  try {
    const { model } = await status();
    byId("model-name").textContent = model.id;
    document.title = `${model.id} \u00b7 Tuff`;
  } catch (error) {
    if (error.kind === "key") openSettings("key");
    notice(error.message);
  }
}

startTheme();
chat.open(store.all()[0] ?? null);
side.show();
select(location.hash === "#monitor" ? "monitor" : "chat");
greet();
