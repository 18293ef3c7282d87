// Conversations, kept in the browser: one entry each, so that two open pages do not overwrite each
// other's. Bounded: the oldest make room.

const PREFIX = "tuff.chat.";
/** Conversations at most. */
const MOST = 100;

/** A new conversation, which is kept from its first message on. */
export function fresh() {
  return { id: crypto.getRandomValues(new Uint32Array(3)).join("-"), title: "", updated: Date.now(),
    messages: [] };
}

/** All conversations, the latest first. */
export function all() {
  const found = keys().map((key) => read(key)).filter((chat) => chat !== null);
  return found.sort((a, b) => b.updated - a.updated);
}

/** One conversation, or null. */
export function load(id) {
  return read(PREFIX + id);
}

/** Keeps a conversation; says how many others had to go for it, or -1 if it could not be kept. */
export function keep(chat) {
  let gone = 0;
  for (;;) {
    const others = all().filter((other) => other.id !== chat.id);
    if (others.length < MOST) {
      try {
        localStorage.setItem(PREFIX + chat.id, JSON.stringify(chat));
        return gone;
      } catch {
        if (others.length === 0) return -1;
      }
    }
    remove(others.at(-1).id);
    gone += 1;
  }
}

/** Forgets a conversation. */
export function remove(id) {
  localStorage.removeItem(PREFIX + id);
}

/** Whether a change that another page made is one of conversations. */
export function isChat(key) {
  return key === null || key.startsWith(PREFIX);
}

/** What a conversation is called in lists. */
export function title(chat) {
  if (chat.title) return chat.title;
  const first = chat.messages.find((message) => message.role === "user")?.content ?? "";
  return first.trim().replace(/\s+/g, " ").slice(0, 60) || "New conversation";
}

function keys() {
  const count = localStorage.length;
  return Array.from({ length: count }, (_, at) => localStorage.key(at))
    .filter((key) => key?.startsWith(PREFIX));
}

function read(key) {
  try {
    const chat = JSON.parse(localStorage.getItem(key));
    return isWhole(chat) ? chat : null;
  } catch {
    return null;
  }
}

/** What is in the browser may be of another version or somebody's own. */
function isWhole(chat) {
  const message = (it) => typeof it?.role === "string" && typeof it.content === "string";
  return typeof chat?.id === "string" && typeof chat.title === "string"
    && Number.isFinite(chat.updated) && Array.isArray(chat.messages)
    && chat.messages.every(message);
}
