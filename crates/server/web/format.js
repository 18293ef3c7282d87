// Figures as people read them.

/** A count with thin gaps between thousands. */
export function count(value) {
  return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

/** A count of things. */
export function counted(value, thing) {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

/** A speed or the like: few digits. */
export function brief(value) {
  return value >= 100 ? count(value) : value.toFixed(1);
}

/** A share as percent. */
export function percent(value) {
  return `${(value * 100).toFixed(value < 0.995 ? 1 : 0)} %`;
}

/** Bytes in binary units, as [number, unit]. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return [value.toFixed(at === 0 || value >= 100 ? 0 : 1), units[at]];
}

/** Bytes a second in decimal units, as memory is sold, as [number, unit]. */
export function rate(value) {
  const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return [value.toFixed(at === 0 || value >= 100 ? 0 : 1), units[at]];
}

/** A time, from milliseconds to days. */
export function duration(seconds) {
  if (seconds > 0 && seconds < 0.9995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}
