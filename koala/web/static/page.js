// What every page does: times, and its live parts.
import { live } from "./live.js";
import { showTimes, tick } from "./times.js";

showTimes(document);
setInterval(tick, 1000);
const topic = document.body.dataset.topic;
if (topic) {
  const parts = [];
  if (document.getElementById("sites")) parts.push((await import("./grid.js")).grid());
  if (document.getElementById("filter")) parts.push((await import("./jobs.js")).jobs());
  if (document.getElementById("fresh")) parts.push((await import("./refresh.js")).fresh());
  if (document.getElementById("log")) (await import("./logs.js")).logs();
  live(topic, Object.assign({}, ...parts));
}
if (document.getElementById("playback")) (await import("./playback.js")).playBack();
if (document.getElementById("submit")) (await import("./submit.js")).submit();
