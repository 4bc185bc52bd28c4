// Instants in the user's time zone, and durations that tick.
const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export function showTimes(root) {
  const today = new Date().toDateString();
  for (const one of root.querySelectorAll("time[data-at]")) {
    const at = new Date(Number(one.dataset.at) * 1000);
    const text = (at.toDateString() === today ? clock : zone).format(at);
    if (one.textContent !== text) one.textContent = text;
    one.title = at.toISOString();
  }
  for (const one of root.querySelectorAll("text[data-at]")) {
    const text = tickText(new Date(Number(one.dataset.at) * 1000), one.textContent);
    if (one.textContent !== text) one.textContent = text;
  }
}

// A tick of a chart as the server wrote it: a day, or hours and minutes, perhaps with seconds.
function tickText(at, written) {
  if (written.includes("-")) return `${at.getMonth() + 1}-${String(at.getDate()).padStart(2, "0")}`;
  const parts = [at.getHours(), at.getMinutes(), at.getSeconds()].slice(0, written.split(":").length);
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  for (const [size, unit, below, less] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / below);
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${less}` : ""}`;
  }
  return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
}

export function tick(root = document) {
  const now = Date.now() / 1000;
  for (const one of root.querySelectorAll(".tick[data-since]")) {
    if (one.dataset.until) continue;
    one.textContent = duration(now - Number(one.dataset.since));
  }
}
