// What every page does: times, and its live parts.
import { live } from "./live.js";
import { showTimes, tick } from "./times.js";

showTimes(document);
document.addEventListener("keydown", keys);
setInterval(tick, 1000);
const topic = document.body.dataset.topic;
if (topic) {
  const parts = [];
  if (document.getElementById("sites")) parts.push((await import("./grid.js")).grid());
  if (document.getElementById("timeline")) parts.push((await import("./timeline.js")).timeline());
  if (document.getElementById("filter")) parts.push((await import("./jobs.js")).jobs());
  if (document.getElementById("fresh")) parts.push((await import("./refresh.js")).fresh());
  if (document.getElementById("log")) (await import("./logs.js")).logs();
  live(topic, Object.assign({}, ...parts));
}
if (document.getElementById("playback")) (await import("./playback.js")).playBack();
if (document.getElementById("submit")) (await import("./submit.js")).submit();

// "/" goes to the search field, j and k through the links of a table, "?" says so.
function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") {
    const field = document.querySelector("[name=text]");
    if (!field) return location.assign(`${document.body.dataset.base}/jobs`);
    field.focus();
    event.preventDefault();
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll("tbody th a")];
    const next = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
  } else if (event.key === "?") {
    document.getElementById("keys").togglePopover();
  }
}
