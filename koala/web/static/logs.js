// What the programs of a job write, as it comes. All that came is kept, up to a limit; the page has a
// window of it. Text is only ever shown as text.
import { PLAIN, colourise } from "./ansi.js";
import { refusal } from "./live.js";

const KEPT = 200_000;
const WINDOW = 500;
const STEP = 400;
const TEXT_MAX = 20_000;

export function logs() {
  const out = document.getElementById("log");
  const state = document.getElementById("log-state");
  const place = document.getElementById("log-place");
  const follow = document.getElementById("log-follow");
  const [part, process, stream, words] = ["log-part", "log-process", "log-stream", "log-text"].map((id) => document.getElementById(id));
  const download = document.getElementById("log-download");
  const sources = new Map();
  let lines = []; // all that are kept
  let shown = []; // those that pass the choice
  let first = 0; // of the window, among those
  let isDue = false;

  function passes(line) {
    const { component, process: number, stream: name } = line.source;
    if (part.value !== "" && part.value !== String(component)) return false;
    if (process.value !== "" && process.value !== String(number)) return false;
    if (stream.value !== "" && stream.value !== name) return false;
    return !words.value || plain(line).toLowerCase().includes(words.value.toLowerCase());
  }

  function plain(line) {
    return colourise(line.text).parts.map((one) => one.text).join("");
  }

  function write(one) {
    const key = `${one.attempt}/${one.component}/${one.process}/${one.stream}`;
    let source = sources.get(key);
    if (!source) sources.set(key, (source = newSource(one)));
    const pieces = one.text.split("\n");
    pieces.forEach((text, index) => {
      const isLast = index === pieces.length - 1;
      if (source.open) source.open.text = (source.open.text + text).slice(0, TEXT_MAX);
      else if (text || !isLast) {
        source.open = { source, text: text.slice(0, TEXT_MAX), style: source.style };
        lines.push(source.open);
        if (!words.value && passes(source.open)) shown.push(source.open);
      }
      if (isLast || !source.open) return;
      if (words.value && passes(source.open)) shown.push(source.open);
      source.style = source.open.text.includes("\x1b") ? colourise(source.open.text, source.style).style : source.style;
      source.open = null;
    });
    if (lines.length > KEPT) {
      lines = lines.slice(lines.length - KEPT * 0.9);
      choose();
    }
    draw();
  }

  function newSource({ component, process: number, stream: name, label }) {
    if (![...process.options].some((option) => option.value === String(number))) {
      process.append(new Option(String(number), String(number)));
    }
    return { component, process: number, stream: name, label, style: PLAIN, open: null };
  }

  function choose() {
    shown = lines.filter(passes);
    first = Math.max(0, shown.length - WINDOW);
    const chosen = new URLSearchParams({ component: part.value, process: process.value, stream: stream.value });
    download.href = `${out.dataset.from}.txt?${chosen}`;
    draw();
  }

  function draw() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      if (follow.checked) first = Math.max(0, shown.length - WINDOW);
      first = Math.max(0, Math.min(first, shown.length - 1));
      const last = Math.min(shown.length, first + WINDOW);
      place.textContent = shown.length ? `Lines ${first + 1} to ${last} of ${shown.length}` : "No lines";
      document.getElementById("log-earlier").disabled = first === 0;
      document.getElementById("log-later").disabled = last === shown.length;
      out.replaceChildren(...shown.slice(first, last).map(row));
      if (follow.checked) out.scrollTop = out.scrollHeight;
    });
  }

  function row(line) {
    const { label, process: number, stream: name } = line.source;
    const found = document.createElement("div");
    if (name === "stderr") found.className = "err";
    const from = document.createElement("span");
    from.className = "from";
    from.textContent = `${label}.${number}  `;
    found.append(from);
    for (const { text, classes } of colourise(line.text, line.style).parts) {
      if (!classes) found.append(...marked(text));
      else {
        const span = document.createElement("span");
        span.className = classes;
        span.append(...marked(text));
        found.append(span);
      }
    }
    return found;
  }

  function marked(text) {
    const wanted = words.value.toLowerCase();
    if (!wanted) return [text];
    const found = [];
    let from = 0;
    for (let at = text.toLowerCase().indexOf(wanted); at >= 0; at = text.toLowerCase().indexOf(wanted, from)) {
      const mark = document.createElement("mark");
      mark.textContent = text.slice(at, at + wanted.length);
      found.push(text.slice(from, at), mark);
      from = at + wanted.length;
    }
    return [...found, text.slice(from)];
  }

  function move(step) {
    follow.checked = false;
    first = Math.max(0, Math.min(first + step, shown.length - WINDOW));
    draw();
    out.scrollTop = step < 0 ? out.scrollHeight : 0;
  }

  for (const one of [part, process, stream]) one.onchange = choose;
  words.oninput = choose;
  follow.onchange = draw;
  document.getElementById("log-earlier").onclick = () => move(-STEP);
  document.getElementById("log-later").onclick = () => move(STEP);

  function read() {
    const source = new EventSource(out.dataset.from);
    source.onopen = () => {
      lines = []; // the stream begins at the begin
      shown = [];
      sources.clear();
      state.textContent = "";
    };
    source.onerror = async () => {
      if (source.readyState !== EventSource.CLOSED) return;
      state.textContent = (await refusal(source.url)) || "not live";
      setTimeout(read, 30000);
    };
    source.onmessage = (event) => write(JSON.parse(event.data));
    source.addEventListener("trouble", (event) => {
      state.textContent = JSON.parse(event.data).text;
      source.close();
      if (!JSON.parse(event.data).is_last) setTimeout(read, 5000);
    });
    source.addEventListener("end", () => {
      state.textContent = lines.length ? "the end" : "the programs wrote nothing";
      source.close();
      draw();
    });
    window.addEventListener("pagehide", () => source.close());
  }

  read();
}
