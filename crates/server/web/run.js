// An answer while it is being made: asks for it, takes its parts, and tells the view.

import { ApiError, chat as ask } from "./api.js";
import { fields, settings } from "./settings.js";

/** Time between two times that an unfinished answer is kept, in milliseconds. */
const KEEP = 1000;

/** The answer to a conversation, written into its last message. */
export class Run {
  #stop = new AbortController();
  #message;
  #chat;
  #started = performance.now();
  #first = null;
  #drawn = false;
  #kept = 0;

  /** `hooks`: `show()` draws the answer, `keep()` keeps it, `end()` comes last. */
  constructor(chat, message, hooks) {
    [this.#chat, this.#message, this.hooks] = [chat, message, hooks];
  }

  /** Breaks the answer off; the server frees its slot when the connection goes. */
  stop() {
    this.#stop.abort();
  }

  /** Returns once the answer has ended, whichever way. */
  async go() {
    const message = this.#message;
    try {
      for await (const part of ask(request(this.#chat, message), this.#stop.signal)) {
        this.#take(part);
        this.#draw();
      }
    } catch (error) {
      if (error.name === "AbortError") message.finish = "stopped";
      else message.error = told(error);
    }
    this.#measure();
    this.hooks.end();
  }

  #take({ content, reasoning, finish, usage }) {
    const message = this.#message;
    if (this.#first === null && (content || reasoning)) this.#first = performance.now();
    if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
    if (content && message.reasoning && message.thought === undefined) this.#thought();
    message.content += content;
    if (finish) message.finish = finish;
    if (usage) message.tokens = usage.completion_tokens;
  }

  #thought() {
    this.#message.thought = (performance.now() - this.#started) / 1000;
  }

  #measure() {
    const { tokens, reasoning, thought } = this.#message;
    if (reasoning && thought === undefined) this.#thought();
    const seconds = (performance.now() - (this.#first ?? Infinity)) / 1000;
    if (tokens > 1 && seconds > 0.05) this.#message.speed = (tokens - 1) / seconds;
  }

  /** However fast parts come, the screen is drawn once. */
  #draw() {
    if (!this.#drawn) {
      this.#drawn = true;
      requestAnimationFrame(() => {
        this.#drawn = false;
        this.hooks.show();
      });
    }
    if (performance.now() - this.#kept > KEEP) {
      this.#kept = performance.now();
      this.hooks.keep();
    }
  }
}

function told(error) {
  if (error instanceof ApiError) return { kind: error.kind, message: error.message };
  return { kind: "other", message: `This page failed: ${error.message}` };
}

function request(chat, answer) {
  const { system } = settings();
  const before = chat.messages.slice(0, chat.messages.indexOf(answer));
  const said = ({ content, reasoning }) => content !== "" || Boolean(reasoning);
  const messages = before.filter(said).map(({ role, content, reasoning }) =>
    reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
  if (system.trim() !== "") messages.unshift({ role: "system", content: system });
  return { messages, ...fields() };
}
