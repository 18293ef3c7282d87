// The monitor: asks for the status while it is seen, and draws it.

import { status } from "./api.js";
import { el } from "./dom.js";
import { brief, bytes, count, counted, duration, percent, rate } from "./format.js";
import { slotView } from "./slots.js";
import { tierView } from "./tiers.js";
import { Tile } from "./tile.js";

/** Time between two questions, in milliseconds. */
const EVERY = 1000;

const show = ([value, unit], detail) => ({ value, unit, detail });

/** What the tiles show: of the status now and the one before. */
const TILES = [
  { label: "Decoding", look: "", of: ({ tokens_per_second: speed, totals }) => ({
    ...show([brief(speed.generated), "tokens/s"], `${count(totals.tokens_generated)} in all`),
    point: speed.generated,
  }) },
  { label: "Prompts", look: "second", of: ({ tokens_per_second: speed, totals }) => ({
    ...show([brief(speed.prompt), "tokens/s"], `${count(totals.prompt_tokens_computed)} in all`),
    point: speed.prompt,
  }) },
  { label: "Drafts accepted", look: "", top: 1, of: ({ speculation }, before) => {
    const { drafted, accepted, acceptance } = speculation;
    const recent = share(accepted - (before?.speculation.accepted ?? accepted),
      drafted - (before?.speculation.drafted ?? drafted));
    if (acceptance === null) return { ...show(["\u2013", ""], "none drafted yet"), point: null };
    const all = `${count(accepted)} of ${count(drafted)}`;
    return { ...show([percent(acceptance), ""], all), point: recent };
  } },
  { label: "Requests", look: "second", of: ({ queue, slots }) => ({
    ...show([count(queue.live), `of ${slots.length} slots`], `${count(queue.waiting)} waiting`),
    point: queue.live + queue.waiting,
  }) },
  { label: "Prompt tokens reused", look: "", meter: true, of: ({ totals }) => {
    const { prompt_tokens_reused: reused, prompt_tokens_computed: computed } = totals;
    const part = share(reused, reused + computed);
    return { ...show([part === null ? "\u2013" : percent(part), ""], counted(reused, "token")),
      point: part };
  } },
  { label: "Prompt cache", look: "second", meter: true, of: ({ prompt_cache: cache }) => {
    if (!cache) return show(["off", ""], "");
    const most = bytes(cache.budget_bytes).join(" ");
    return { ...show(bytes(cache.used_bytes), `${counted(cache.states, "state")}, up to ${most}`),
      point: share(cache.used_bytes, cache.budget_bytes) };
  } },
  { label: "Weights read", look: "", of: ({ bandwidth }) => {
    const { weights_bytes_per_second: weights, share: part, experts } = bandwidth;
    const most = bandwidth.memory_bytes_per_second;
    const of = most === null ? "while windows run"
      : `${percent(part)} of ${rate(most).join(" ")} memory`;
    return { ...show(rate(weights), experts === "counted" ? of : `at most, ${of}`),
      point: weights };
  } },
  { label: "Read from storage", look: "second", of: ({ bandwidth }) => {
    const { storage_bytes_per_second: read } = bandwidth;
    if (read === null) return show(["\u2013", ""], "");
    return { ...show(rate(read), "by the whole process"), point: read };
  } },
  { label: "Experts in memory", look: "", meter: true, of: ({ experts }) => {
    if (!experts) return show(["all", ""], "");
    const slots = `${count(experts.held)} of ${count(experts.all)} experts`;
    const { hit_rate: hits } = experts;
    if (hits === null) return show(["\u2013", ""], slots);
    return { ...show([percent(hits), ""], `of those wanted; ${slots}`), point: hits };
  } },
  { label: "Keys and values", look: "", of: ({ memory }) => ({
    ...show(bytes(memory.kv_bytes), "held by the slots"), point: memory.kv_bytes,
  }) },
  { label: "Memory of the server", look: "second", of: ({ memory }) => {
    const { resident_bytes: all, file_bytes: file } = memory;
    if (!all) return show(["\u2013", ""], "not known on this system");
    return { ...show(bytes(all), `${bytes(file).join(" ")} of it mapped files`), point: all };
  } },
];

/** Names of the totals, and whether more than none of them is bad. */
const FIGURES = [
  ["Requests answered", ({ http }) => http.answered],
  ["Refused (4xx)", ({ http }) => http.refused],
  ["Told to come again (429)", ({ http }) => http.busy, "bad"],
  ["Failed (5xx)", ({ http }) => http.failed, "bad"],
  ["Answers ended", ({ totals }) => totals.requests_ended],
  ["Time to first event", ({ http }) =>
    http.first_event_seconds === null ? "\u2013" : duration(http.first_event_seconds)],
  ["Wait in the queue", ({ totals }) => duration(
    share(totals.seconds_queued, totals.requests_ended) ?? 0)],
  ["Windows computed", ({ totals }) => totals.steps],
  ["Tokens in a window", ({ totals }) => {
    const all = totals.tokens_generated + totals.prompt_tokens_computed;
    return brief(share(all, totals.steps) ?? 0);
  }],
];

function share(part, whole) {
  return whole > 0 ? part / whole : null;
}

/** The monitor in `root`. */
export class Monitor {
  #name = el("h2");
  #sub = el("span", { class: "sub" });
  #lost = el("p", { class: "lost", role: "status", hidden: true });
  #slots = el("div", { class: "slots" });
  #tiers = el("div", { class: "tiers" });
  #figures = el("dl", { class: "figures" });
  #tiles = TILES.map((tile) => new Tile(tile));
  #before = null;
  #seen = false;
  #timer = 0;
  #asking = false;

  constructor(root) {
    root.append(el("div", { class: "board" },
      el("header", {}, this.#name, this.#sub), this.#lost,
      el("div", { class: "tiles" }, ...this.#tiles.map((tile) => tile.root)),
      el("h3", {}, "Slots"), this.#slots, el("h3", {}, "Memory"), this.#tiers,
      el("h3", {}, "Since the start"), this.#figures));
    document.addEventListener("visibilitychange", () => this.#poll());
  }

  /** Begins or ends to ask. */
  show(seen) {
    this.#seen = seen;
    this.#poll();
  }

  async #poll() {
    clearTimeout(this.#timer);
    if (!this.#seen || document.hidden || this.#asking) return;
    this.#asking = true;
    try {
      this.#draw(await status(AbortSignal.timeout(10 * EVERY)));
      this.#lost.hidden = true;
    } catch (error) {
      this.#lost.hidden = false;
      const late = error.name === "TimeoutError" || error.name === "AbortError";
      this.#lost.textContent = late ? "The server does not answer." : error.message;
    }
    this.#asking = false;
    if (this.#seen && !document.hidden) this.#timer = setTimeout(() => this.#poll(), EVERY);
  }

  #draw(now) {
    const { model, uptime_seconds: uptime, backend } = now;
    this.#name.textContent = model.id;
    this.#sub.textContent = [
      `${count(model.context_length)} tokens of context`, `on ${backend}`,
      `up for ${duration(uptime)}`,
    ].join(" \u00b7 ");
    // After a restart of the server the counts begin anew.
    if (this.#before && this.#before.uptime_seconds > uptime) this.#before = null;
    this.#tiles.forEach((tile) => tile.update(now, this.#before));
    this.#slots.replaceChildren(...now.slots.map(slotView));
    this.#tiers.replaceChildren(...now.memory.tiers.map(tierView));
    this.#figures.replaceChildren(...FIGURES.map(([name, of, bad]) => figure(name, of(now), bad)));
    this.#before = now;
  }
}

function figure(name, value, bad) {
  const text = typeof value === "number" ? count(value) : value;
  return el("div", { class: bad && value > 0 ? bad : "" }, el("dt", {}, name), el("dd", {}, text));
}
