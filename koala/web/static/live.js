// The stream of changes. The browser reconnects by itself and shows the number of the last event.
const link = document.getElementById("link");
const trouble = document.getElementById("trouble");

function say(state, text) {
  link.dataset.state = state;
  link.textContent = text;
  link.hidden = false;
}

// Why the server refused a stream for now; empty if it did not, or gives no stream here any more.
export async function refusal(address) {
  const asked = new AbortController();
  const answer = await fetch(address, { headers: { accept: "application/json" }, signal: asked.signal }).catch(() => null);
  const text = answer?.status === 503 ? (await answer.json()).error : "";
  asked.abort();
  return text;
}

export function live(topic, handlers) {
  const { base, number } = document.body.dataset;
  const source = new EventSource(`${base}/events?topic=${encodeURIComponent(topic)}&after=${number}`);
  source.onopen = () => {
    say("live", "live");
    document.getElementById("as-of").hidden = true;
  };
  source.onerror = async () => {
    if (source.readyState !== EventSource.CLOSED) {
      say("off", "connecting again");
      return;
    }
    // The server refused the stream: it has too many, the session is over, or it is another one by now.
    say("off", "not live");
    const text = await refusal(source.url);
    if (text) {
      trouble.textContent = text;
      trouble.hidden = false;
    }
    setTimeout(() => location.reload(), text ? 30000 : 2000);
  };
  source.addEventListener("trouble", (event) => {
    const { text } = JSON.parse(event.data);
    trouble.textContent = text;
    trouble.hidden = !text;
  });
  source.addEventListener("reload", () => location.reload());
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
  window.addEventListener("pagehide", () => source.close());
}

export function announce(text) {
  document.getElementById("news").textContent = text;
}
