// What the programs of a job write, as it comes. Text is only ever shown as text.
import { refusal } from "./live.js";

const KEPT = 4000;

export function logs() {
  const out = document.getElementById("log");
  const state = document.getElementById("log-state");
  const part = document.getElementById("log-part");
  const follow = document.getElementById("log-follow");
  const open = new Map(); // the line of each source that has not ended

  function write(one) {
    const source = `${one.attempt}/${one.component}/${one.process}/${one.stream}`;
    const lines = one.text.split("\n");
    lines.forEach((text, index) => {
      const begun = open.get(source);
      if (begun) begun.lastChild.data += text;
      else if (text || index < lines.length - 1) open.set(source, newLine(one, text));
      if (index < lines.length - 1) open.delete(source);
    });
    while (out.childElementCount > KEPT) out.firstElementChild.remove();
    if (follow.checked) out.scrollTop = out.scrollHeight;
  }

  function newLine(one, text) {
    const line = document.createElement("div");
    line.dataset.component = one.component;
    if (one.stream === "stderr") line.className = "err";
    line.hidden = part.value !== "" && part.value !== String(one.component);
    const from = document.createElement("span");
    from.className = "from";
    from.textContent = `${one.label}.${one.process}  `;
    line.append(from, document.createTextNode(text));
    out.append(line);
    return line;
  }

  part.onchange = () => {
    for (const line of out.children) line.hidden = part.value !== "" && part.value !== line.dataset.component;
  };

  function read() {
    const source = new EventSource(out.dataset.from);
    source.onopen = () => {
      out.replaceChildren(); // the stream begins at the begin
      open.clear();
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
      setTimeout(read, 5000);
    });
    source.addEventListener("end", () => {
      state.textContent = out.childElementCount ? "the end" : "the programs wrote nothing";
      source.close();
    });
    window.addEventListener("pagehide", () => source.close());
  }

  read();
}
