// The list of conversations.

import { el, iconButton, save } from "./dom.js";
import * as store from "./store.js";

const list = document.getElementById("chats");
const menu = document.getElementById("menu");
const narrow = matchMedia("(max-width: 760px)");

/** The list beside `chat`, which it opens conversations in. */
export class Side {
  #chat;
  #shown = "";

  constructor(chat) {
    this.#chat = chat;
    menu.addEventListener("click", () => this.toggle());
    document.getElementById("shade").addEventListener("click", () => this.toggle(false));
    document.getElementById("new-chat").addEventListener("click", () => this.open(null));
    document.getElementById("export-all").addEventListener("click", () =>
      save("tuff-conversations.json", store.all()));
    document.getElementById("delete-all").addEventListener("click", () => this.#deleteAll());
    addEventListener("storage", (event) => store.isChat(event.key) && this.show());
    narrow.addEventListener("change", () => this.toggle(false));
    this.toggle(false);
  }

  /** Opens or closes the list where it lies over the conversation. */
  toggle(open = !document.body.classList.contains("side-open")) {
    const back = !open && document.body.classList.contains("side-open");
    document.body.classList.toggle("side-open", open);
    menu.setAttribute("aria-expanded", open);
    if (open) document.getElementById("new-chat").focus();
    else if (back && narrow.matches) menu.focus();
  }

  /** Opens a conversation, or a new one. */
  open(id) {
    this.#chat.open(id && store.load(id));
    this.toggle(false);
    this.show();
    document.getElementById("input").focus();
  }

  /** Shows the list as it is now. */
  show() {
    const chats = store.all();
    const rows = chats.map((chat) => [chat.id, store.title(chat), this.#chat.isRunning(chat.id)]);
    // The list is asked for often and changes seldom; making it anew would lose the focus.
    const state = JSON.stringify([this.#chat.id, rows]);
    if (state === this.#shown || list.querySelector("input")) return;
    this.#shown = state;
    const focused = list.contains(document.activeElement);
    list.replaceChildren(...rows.map((row) => this.#row(row)));
    if (focused) list.querySelector("[aria-current] .name, .name")?.focus();
  }

  #row([id, title, running]) {
    const name = el("button", { class: "name", title, on: { click: () => this.open(id) } }, title);
    const row = el("li", { class: running ? "running" : "" }, name,
      iconButton("edit", `Rename ${title}`, () => this.#rename(row, id, title)),
      iconButton("save", `Export ${title}`, () => save("tuff-conversation.json", store.load(id))),
      iconButton("trash", `Delete ${title}`, () => this.#delete(id, title)));
    if (id === this.#chat.id) row.setAttribute("aria-current", "true");
    return row;
  }

  #rename(row, id, title) {
    const input = el("input", { value: title, maxLength: 100, "aria-label": "Title" });
    let ended = false;
    const end = (keep) => {
      if (ended) return;
      ended = true;
      input.remove();
      this.#shown = "";
      if (keep && input.value.trim() !== "") this.#chat.rename(id, input.value.trim());
      this.show();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) end(true);
      if (event.key === "Escape") end(false);
      event.stopPropagation();
    });
    input.addEventListener("blur", () => end(true));
    row.replaceChildren(input);
    input.select();
  }

  #delete(id, title) {
    if (confirm(`Delete "${title}"? It cannot be brought back.`)) this.#chat.forget(id);
  }

  #deleteAll() {
    const chats = store.all();
    if (chats.length === 0 || !confirm(`Delete all ${chats.length} conversations?`)) return;
    chats.forEach(({ id }) => this.#chat.forget(id));
  }
}
