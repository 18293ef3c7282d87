// The server's endpoints, and what can go wrong with them in plain words.

import { events } from "./sse.js";
import { apiKey } from "./settings.js";

/** A fault to show: `kind` is "key", "busy", "lost" or "other". */
export class ApiError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const LOST = "The connection to the server is lost. Is it still running?";

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const key = apiKey();
  if (key) headers.authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // A key with characters that no header may have is the other thing that fetch refuses.
    const printable = /^[\x21-\x7e]*$/.test(key);
    throw printable ? new ApiError("lost", LOST)
      : new ApiError("key", "The API key has characters that a key cannot have.");
  }
  if (!response.ok) throw await fault(response);
  return response;
}

async function fault(response) {
  let message = `The server answered ${response.status}.`;
  try {
    message = plain((await response.json()).error.message) || message;
  } catch {
    // Something else than this server answered; its status must do.
  }
  if (response.status === 401) return new ApiError("key", message);
  if (response.status === 429) {
    const wait = response.headers.get("retry-after");
    const when = wait ? `in ${wait} s` : "in a moment";
    return new ApiError("busy", `${message.replace(/\.$/, "")}. Try again ${when}.`);
  }
  return new ApiError("other", message);
}

function plain(message) {
  const text = String(message ?? "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What `/v1/status` says. */
export async function status(signal) {
  return (await ask("/v1/status", { signal })).json();
}

/** Names that requests may call the model by. */
export async function models() {
  const { data } = await (await ask("/v1/models")).json();
  return data.flatMap((model) => [model.id, ...(model.aliases ?? [])]);
}

/**
 * Streams an answer. Yields `{ content, reasoning, finish, usage }`, each if it is there.
 */
export async function* chat(body, signal) {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  let complete = false;
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") {
        complete = true;
        break;
      }
      const event = JSON.parse(data);
      if (event.error) throw new ApiError("other", plain(event.error.message));
      yield part(event);
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError("lost", LOST);
  }
  if (!complete) throw new ApiError("lost", "The connection ended before the answer did.");
}

function part(event) {
  const choice = event.choices?.[0];
  return {
    content: choice?.delta?.content ?? "",
    reasoning: choice?.delta?.reasoning_content ?? "",
    finish: choice?.finish_reason ?? null,
    usage: event.usage ?? null,
  };
}
