// The form of a submission: checked while it is typed, and filled from a file.
const WAIT_MS = 400;

export function submit() {
  const form = document.getElementById("submit");
  const text = document.getElementById("text");
  const verdict = document.getElementById("verdict");
  const { base, csrf } = document.body.dataset;
  let timer = 0;
  let asked = 0;

  async function check() {
    const number = ++asked;
    const answer = await fetch(`${base}/submit/check`, {
      method: "POST",
      headers: { "x-csrf": csrf, accept: "application/json" },
      body: new URLSearchParams({ text: text.value }),
    }).catch(() => null);
    if (number !== asked) return; // a later one is under way
    if (!answer) {
      say("", "not checked: the server does not answer");
      return;
    }
    const found = await answer.json();
    if (found.is_good) say("good", ["This can be submitted.", found.expected, ...found.warnings].join("\n"));
    else say("bad", found.text ?? found.error);
    text.setAttribute("aria-invalid", String(!found.is_good));
  }

  function say(kind, words) {
    verdict.className = `verdict ${kind}`;
    verdict.textContent = words;
  }

  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, WAIT_MS);
  });
  document.getElementById("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    text.value = await file.text();
    check();
  });
  const key = document.createElement("input");
  key.type = "hidden";
  key.name = "key";
  key.value = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  form.append(key); // the same form twice is the same job
  if (!verdict.textContent) check();
}
