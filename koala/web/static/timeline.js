// The timeline of the grid. The server draws it; here it is read again, for another period too.
import { change } from "./refresh.js";

const EVERY_MS = 3000;
const DRAG_PX = 6;
const WHEEL_MS = 150;

export function timeline() {
  const panel = document.getElementById("timeline-panel");
  const part = document.getElementById("timeline");
  const pick = document.createElement("div");
  pick.className = "pick";
  pick.hidden = true;
  panel.append(pick);
  let query = new URLSearchParams(location.search);
  let asked = 0;
  let readAt = 0;
  let timer = 0;

  async function read() {
    clearTimeout(timer);
    timer = 0;
    const number = ++asked;
    readAt = Date.now();
    const wanted = new URLSearchParams(query);
    if (part.dataset.site) wanted.set("site", part.dataset.site);
    const answer = await fetch(`${part.dataset.from}?${wanted}`, { headers: { accept: "text/html" } }).catch(() => null);
    if (number !== asked || !answer?.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("timeline");
    if (!next || !pick.hidden) return;
    const focused = placeOf(document.activeElement);
    change(part, next);
    if (focused) part.querySelectorAll(focused.alike)[focused.number]?.focus();
  }

  // A claim that has the focus keeps it when claims of other jobs come or go before it.
  function placeOf(element) {
    const href = part.contains(element) ? element.getAttribute("href") : null;
    if (!href) return null;
    const { zoom } = element.dataset;
    const alike = zoom ? `[data-zoom="${CSS.escape(zoom)}"]` : `[href="${CSS.escape(href)}"]`;
    return { alike, number: [...part.querySelectorAll(alike)].indexOf(element) };
  }

  function soon() {
    if (timer || document.hidden || !part.dataset.moves) return;
    timer = setTimeout(read, Math.max(0, readAt + EVERY_MS - Date.now()));
  }

  function go(wanted) {
    query = wanted;
    history.replaceState(null, "", `${location.pathname}?${query}`);
    read();
  }

  function show(since, until) {
    const wanted = new URLSearchParams(query);
    wanted.set("span", Math.max(10, Math.round(until - since)));
    if (until < Date.now() / 1000) wanted.set("until", Math.round(until));
    else wanted.delete("until");
    go(wanted);
  }

  function instant(x) {
    const box = part.querySelector(".grid-chart").getBoundingClientRect();
    const [since, until] = [Number(part.dataset.since), Number(part.dataset.until)];
    return since + Math.min(1, Math.max(0, (x - box.left) / box.width)) * (until - since);
  }

  part.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-zoom]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const address = new URL(link.getAttribute("href"), location.href);
    if (address.pathname !== location.pathname) return;
    event.preventDefault();
    go(link.classList.contains("site-link") ? withSites(address.searchParams.getAll("open")) : address.searchParams);
  });

  // The period is the one that was asked for last, which the drawing may not show yet.
  function withSites(open) {
    const wanted = new URLSearchParams(query);
    wanted.delete("open");
    for (const site of open) wanted.append("open", site);
    return wanted;
  }

  // A period is chosen by dragging over it; what is not moved is a click.
  part.addEventListener("pointerdown", (event) => {
    const chart = event.target.closest(".grid-chart");
    if (!chart || event.button !== 0 || event.pointerType !== "mouse") return;
    const begin = event.clientX;
    const box = chart.getBoundingClientRect();
    const frame = panel.getBoundingClientRect();
    const move = (moved) => {
      const [left, right] = [begin, Math.min(box.right, Math.max(box.left, moved.clientX))].sort((a, b) => a - b);
      pick.hidden = pick.hidden && right - left < DRAG_PX;
      Object.assign(pick.style, { left: `${left - frame.left}px`, width: `${right - left}px`, top: `${box.top - frame.top}px`, height: `${box.height}px` });
    };
    const end = (ended) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      if (pick.hidden) return;
      pick.hidden = true;
      const stay = (click) => click.preventDefault();
      addEventListener("click", stay, { capture: true });
      setTimeout(() => {
        removeEventListener("click", stay, { capture: true });
        show(...[instant(begin), instant(ended.clientX)].sort((a, b) => a - b));
      });
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  });
  part.addEventListener("dragstart", (event) => event.preventDefault());

  let factor = 1;
  let wheel = 0;
  part.addEventListener("wheel", (event) => {
    if (!event.target.closest(".grid-chart") || !(event.ctrlKey || event.shiftKey)) return;
    event.preventDefault();
    factor *= event.deltaY + event.deltaX > 0 ? 1.25 : 0.8;
    clearTimeout(wheel);
    wheel = setTimeout(() => {
      const at = instant(event.clientX);
      const [since, until] = [Number(part.dataset.since), Number(part.dataset.until)];
      show(at - (at - since) * factor, at + (until - at) * factor);
      factor = 1;
    }, WHEEL_MS);
  }, { passive: false });

  part.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const zoom = { "+": "+", "-": "−" }[event.key];
    if (zoom) return part.querySelector(`[data-zoom="${zoom}"]`).click();
    const claims = [...part.querySelectorAll(".grid-chart a.claim")];
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const here = claims.indexOf(document.activeElement);
    if (!step || here < 0) return undefined;
    claims[Math.min(claims.length - 1, Math.max(0, here + step))].focus();
    event.preventDefault();
    return undefined;
  });

  setInterval(soon, EVERY_MS);
  return { timeline: soon };
}
