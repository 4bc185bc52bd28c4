// A past run, and perhaps a what-if beside it: the use of each site over time, and what is under way
// at the instant of the slider.
import { duration } from "./times.js";

const STEPS = 500;
const PLAY_MS = 20_000;
const SPACE = "http://www.w3.org/2000/svg";

export async function playBack() {
  waitForTheSimulation();
  const answer = await fetch(document.getElementById("playback").dataset.from, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const { first_at: first, last_at: last, runs } = await answer.json();
  const slider = document.getElementById("instant");
  const play = document.getElementById("play");
  const span = Math.max(1e-3, last - first);
  const claims = bySite(runs);
  const cursors = [...document.querySelectorAll(".playback-lane")].map((lane) =>
    draw(lane, claims.get(key(lane.dataset)) ?? [], first, span));

  function show() {
    const share = Number(slider.value) / 1000;
    const at = first + share * span;
    document.getElementById("at").textContent = `+${duration(share * span)}`;
    for (const cursor of cursors) {
      cursor.setAttribute("x1", 1000 * share);
      cursor.setAttribute("x2", 1000 * share);
    }
    for (const one of document.querySelectorAll("[data-used]")) {
      const here = claims.get(key({ run: one.dataset.used, site: one.dataset.site })) ?? [];
      const { running, held } = use(here, at);
      one.textContent = running + held;
    }
    for (const one of document.querySelectorAll("[data-now]")) one.textContent = now(runs[one.dataset.now].jobs, at);
  }

  let timer = 0;
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  play.onclick = () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 2;
      show();
      if (slider.value === slider.max) stop();
    }, PLAY_MS / 500);
    return undefined;
  };
  slider.oninput = show;
  show();
}

function waitForTheSimulation() {
  const form = document.getElementById("what-if");
  const button = form.querySelector("button");
  const word = button.textContent;
  form.addEventListener("submit", () => {
    button.textContent = "Simulating…";
    form.setAttribute("aria-busy", "true");
    for (const one of form.elements) if (!one.value) one.disabled = true; // a shorter address
  });
  window.addEventListener("pageshow", () => {
    button.textContent = word;
    form.removeAttribute("aria-busy");
    for (const one of form.elements) one.disabled = false;
  });
}

function key({ run, site }) {
  return `${run} ${site}`;
}

function bySite(runs) {
  const found = new Map();
  for (const [run, { claims }] of Object.entries(runs)) {
    for (const [site, processors, granted, passed, freed] of claims) {
      const name = key({ run, site });
      if (!found.has(name)) found.set(name, []);
      found.get(name).push({ processors, granted, passed, freed });
    }
  }
  return found;
}

function now(jobs, at) {
  const counts = { waiting: 0, running: 0, over: 0 };
  let waited = 0;
  for (const [submitted, started, ended] of jobs) {
    if (submitted > at) continue;
    if (ended !== null && ended <= at) counts.over += 1;
    else if (started !== null && started <= at) counts.running += 1;
    else counts.waiting += 1;
    waited += Math.min(at, started ?? ended ?? at) - submitted;
  }
  return `${counts.waiting} jobs wait, ${counts.running} run, ${counts.over} are over; waited in all ${duration(waited)}`;
}

function use(claims, at) {
  const found = { running: 0, held: 0 };
  for (const one of claims) {
    if (one.granted > at || (one.freed !== null && one.freed <= at)) continue;
    found[one.passed !== null && one.passed <= at ? "running" : "held"] += one.processors;
  }
  return found;
}

function draw(lane, claims, first, span) {
  const all = Math.max(1, Number(lane.dataset.processors));
  const steps = Array.from({ length: STEPS + 1 }, (_, step) => use(claims, first + (step / STEPS) * span));
  for (const [kind, height] of [["barrier", (one) => one.running + one.held], ["running", (one) => one.running]]) {
    const top = steps.map((one, step) => `${(1000 * step) / STEPS} ${100 - (100 * height(one)) / all}`);
    const path = document.createElementNS(SPACE, "path");
    path.setAttribute("class", `use ${kind}`);
    path.setAttribute("d", `M0 100 L${top.join(" L")} L1000 100Z`);
    lane.append(path);
  }
  const cursor = document.createElementNS(SPACE, "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", 0);
  cursor.setAttribute("y2", 100);
  lane.append(cursor);
  return cursor;
}
