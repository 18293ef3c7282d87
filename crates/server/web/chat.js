// The conversation that is shown: sending, stopping, changing, answering again.

import { announce, icon } from "./dom.js";
import { AnswerView, userView } from "./message.js";
import { Run } from "./run.js";
import * as store from "./store.js";

const list = document.getElementById("messages");
const scroll = document.getElementById("scroll");
const input = document.getElementById("input");
const send = document.getElementById("send");

const GREETING = "What would you like to talk about?";
/** Distance from the end, in pixels, at which what comes is still followed. */
const NEAR = 80;

/** What is shown, and answers that are being made, by conversation. */
export class Chat {
  #chat = store.fresh();
  #runs = new Map();
  #last = null;
  #follow = true;

  /** `hooks`: `changed()` when the list of conversations may have, `notice(text)`, `key()`. */
  constructor(hooks) {
    this.hooks = hooks;
    document.getElementById("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.isRunning()) this.stop();
      else this.#send();
    });
    input.addEventListener("keydown", (event) => this.#key(event));
    input.addEventListener("input", fit);
    scroll.addEventListener("scroll", () => { this.#follow = distance() < NEAR; });
    // What is still running is kept as far as it is.
    addEventListener("pagehide", () => this.#runs.forEach((run) => run.hooks.keep()));
  }

  get id() {
    return this.#chat.id;
  }

  /** Whether an answer of this conversation is being made. */
  isRunning(id = this.id) {
    return this.#runs.has(id);
  }

  /** Shows a conversation; a new one if it is null. */
  open(chat) {
    const running = chat && this.#runs.get(chat.id);
    this.#chat = running ? running.chat : chat ?? store.fresh();
    this.#show();
    input.focus({ preventScroll: true });
  }

  /** Breaks the answer of a conversation off. */
  stop(id = this.id) {
    this.#runs.get(id)?.stop();
  }

  /** Gives a conversation a title. */
  rename(id, title) {
    const chat = this.#runs.get(id)?.chat ?? (id === this.id ? this.#chat : store.load(id));
    if (!chat) return;
    chat.title = title;
    this.#keep(chat);
  }

  /** Forgets a conversation and whatever is being answered in it. */
  forget(id) {
    this.#runs.get(id)?.forget();
    store.remove(id);
    if (id === this.id) this.open(null);
    this.hooks.changed();
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.isRunning()) this.#send();
  }

  #send() {
    const text = input.value.trim();
    if (text === "") return;
    input.value = "";
    fit();
    this.#chat.messages.push({ role: "user", content: text });
    this.#answer();
  }

  /** Asks for an answer to the messages that are there. */
  #answer() {
    const chat = this.#chat;
    const message = { role: "assistant", content: "" };
    chat.messages.push(message);
    chat.updated = Date.now();
    const run = new Run(chat, message, {
      show: () => chat === this.#chat && this.#redraw(),
      keep: () => this.#keep(chat),
      end: () => this.#ended(chat, message),
    });
    run.chat = chat;
    run.forget = () => {
      run.hooks = { show() {}, keep() {}, end: () => this.#runs.delete(chat.id) };
      run.stop();
    };
    this.#runs.set(chat.id, run);
    this.#follow = true;
    this.#keep(chat);
    this.#show();
    run.go();
  }

  #ended(chat, message) {
    this.#runs.delete(chat.id);
    this.#keep(chat);
    if (chat !== this.#chat) return;
    this.#redraw();
    this.#buttons();
    announce(message.error?.message ?? "The answer is complete");
    if (message.error?.kind === "key") this.hooks.key();
  }

  #keep(chat) {
    const gone = store.keep(chat);
    if (gone < 0) this.hooks.notice("The browser has no room to keep this conversation.");
    if (gone > 0) this.hooks.notice("The oldest conversations were deleted to make room.");
    this.hooks.changed();
  }

  /** Answers message `index` once more, with `text` instead of it if it is the user's. */
  #again(index, text) {
    if (this.isRunning()) {
      this.hooks.notice("Stop the answer that is being written first.");
      return;
    }
    const { messages } = this.#chat;
    if (text === undefined) {
      messages.length = index;
    } else {
      messages.length = index + 1;
      messages[index] = { role: "user", content: text };
    }
    this.#answer();
    input.focus({ preventScroll: true });
  }

  #show() {
    this.#last = null;
    const views = this.#chat.messages.map((message, index) => this.#view(message, index));
    list.replaceChildren(...views);
    list.classList.toggle("empty", views.length === 0);
    list.dataset.greeting = GREETING;
    this.#buttons();
    this.#follow = true;
    this.#redraw();
  }

  #view(message, index) {
    if (message.role === "user") {
      return userView(message, { onEdit: (text) => this.#again(index, text) });
    }
    const view = new AnswerView(message, {
      onRedo: () => this.#again(index), onKey: () => this.hooks.key(),
    });
    view.update({ running: false });
    this.#last = view;
    return view.root;
  }

  #redraw() {
    this.#last?.update({ running: this.isRunning() });
    if (this.#follow) scroll.scrollTop = scroll.scrollHeight;
  }

  #buttons() {
    const running = this.isRunning();
    send.replaceChildren(icon(running ? "stop" : "send"));
    send.setAttribute("aria-label", running ? "Stop" : "Send");
    send.title = running ? "Stop (Esc)" : "Send (Enter)";
    send.classList.toggle("stop", running);
    list.classList.toggle("running", running);
  }
}

function distance() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
}

/** The box is as high as its text, within limits of the style. */
function fit() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
}
