// A past run: the use of each site over time, and what is under way at the instant of the slider.
import { duration } from "./times.js";

const STEPS = 500;
const PLAY_MS = 20_000;
const SPACE = "http://www.w3.org/2000/svg";

export async function film() {
  const answer = await fetch(document.getElementById("film").dataset.from, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const run = await answer.json();
  const slider = document.getElementById("instant");
  const play = document.getElementById("play");
  const span = Math.max(1e-3, run.last_at - run.first_at);
  const cursors = [];
  for (const lane of document.querySelectorAll(".film-lane")) cursors.push(draw(lane, run, span));

  function show() {
    const share = Number(slider.value) / 1000;
    const at = run.first_at + share * span;
    document.getElementById("at").textContent = `+${duration(share * span)}`;
    for (const cursor of cursors) {
      cursor.setAttribute("x1", 1000 * share);
      cursor.setAttribute("x2", 1000 * share);
    }
    for (const label of document.querySelectorAll("[data-lane]")) {
      const { running, held } = use(run.claims.filter((one) => one.site === label.dataset.lane), at);
      label.querySelector("[data-used]").textContent = running + held;
    }
    const counts = { waiting: 0, running: 0, over: 0 };
    for (const job of run.jobs) {
      if (job.submitted_at > at) continue;
      if (job.ended_at !== null && job.ended_at <= at) counts.over += 1;
      else if (job.started_at !== null && job.started_at <= at) counts.running += 1;
      else counts.waiting += 1;
    }
    document.getElementById("film-now").textContent = `${counts.waiting} jobs wait, ${counts.running} run, ${counts.over} are over`;
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

function use(claims, at) {
  const found = { running: 0, held: 0 };
  for (const one of claims) {
    if (one.granted_at === null || one.granted_at > at || (one.freed_at !== null && one.freed_at <= at)) continue;
    const kind = one.passed_at !== null && one.passed_at <= at ? "running" : "held";
    found[kind] += one.processors;
  }
  return found;
}

function draw(lane, run, span) {
  const claims = run.claims.filter((one) => one.site === lane.dataset.site);
  const all = Math.max(1, Number(lane.dataset.processors));
  const steps = Array.from({ length: STEPS + 1 }, (_, step) => use(claims, run.first_at + (step / STEPS) * span));
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
