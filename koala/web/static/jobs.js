// The list of jobs: rows change in place; on the first page new jobs come in at the top.
import { announce } from "./live.js";
import { duration, showTimes } from "./times.js";

export function jobs() {
  const filter = document.getElementById("filter").dataset;
  const body = document.getElementById("jobs");
  const blank = document.getElementById("job-row");
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  let newest = idOf(body.querySelector("[data-job]")?.dataset.job ?? "j0");

  function passes(job) {
    if (filter.owner && job.owner !== filter.owner) return false;
    if (filter.site && !job.places.includes(filter.site)) return false;
    if (filter.phase === "alive" || filter.phase === "over") {
      if ((job.ended_at !== null) !== (filter.phase === "over")) return false;
    } else if (filter.phase && job.phase !== filter.phase) return false;
    return words.every((word) => job.haystack.includes(word));
  }

  function insert(job) {
    document.getElementById("none")?.remove();
    const row = blank.content.firstElementChild.cloneNode(true);
    row.dataset.job = job.job;
    show(row, job);
    const before = [...body.children].find((one) => idOf(one.dataset.job) < idOf(job.job));
    body.insertBefore(row, before ?? null);
    while (body.children.length > Number(filter.rows)) body.lastElementChild.remove();
  }

  return {
    jobs({ jobs: changed }) {
      for (const job of changed) {
        const row = body.querySelector(`[data-job="${CSS.escape(job.job)}"]`);
        if (row && passes(job)) show(row, job);
        else if (row) row.remove();
        else if (filter.page === "1" && passes(job) && (idOf(job.job) > newest || isWithin(body, job))) insert(job);
        newest = Math.max(newest, idOf(job.job));
      }
      if (changed.length === 1) announce(`${changed[0].job} ${changed[0].phase}`);
    },
  };
}

function idOf(job) {
  return Number(job.slice(1));
}

function isWithin(body, job) {
  const last = body.lastElementChild;
  return !last || idOf(job.job) > idOf(last.dataset.job);
}

function show(row, job) {
  for (const one of row.querySelectorAll("[data-cell]")) {
    const text = String(job[one.dataset.cell] ?? "");
    if (one.textContent !== text) one.textContent = text;
  }
  row.querySelector("[data-cell=phase]").className = `phase ${job.stage}`;
  const link = row.querySelector("a");
  link.href = `${document.body.dataset.base}/jobs/${encodeURIComponent(job.job)}`;
  const time = row.querySelector("time");
  time.dataset.at = job.submitted_at;
  time.dateTime = new Date(job.submitted_at * 1000).toISOString();
  showTimes(row);
  showSpan(row.querySelector("[data-span=wait]"), job.submitted_at, job.wait_until);
  showSpan(row.querySelector("[data-span=run]"), job.started_at, job.ended_at);
  row.classList.remove("changed");
  void row.offsetWidth; // begins the animation again
  row.classList.add("changed");
}

function showSpan(cell, since, until) {
  cell.textContent = since === null ? "–" : duration((until ?? Date.now() / 1000) - since);
  cell.classList.toggle("tick", since !== null && until === null);
  if (since !== null) cell.dataset.since = since;
  cell.dataset.until = until ?? "";
}
