// A part of the page that the server renders: it is read again and changed in place, node by node,
// so that the focus, the selection and the place of scrolling stay.
import { announce } from "./live.js";
import { showTimes } from "./times.js";

const EVERY_MS = 5000;
const PAUSE_MS = 500;

export function showPart(id, text) {
  const next = new DOMParser().parseFromString(text, "text/html").body;
  showTimes(next);
  changeChildren(document.getElementById(id), next);
}

async function readPart(id) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return false;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.getElementById(id);
  const here = document.getElementById(id);
  if (!next || !here) return false;
  change(here, next);
  document.title = page.title;
  return true;
}

// Makes an element like another one, which is of a page that was read.
export function change(here, next) {
  showTimes(next);
  alter(here, next);
}

function alter(here, next) {
  for (const { name, value } of [...next.attributes]) if (here.getAttribute(name) !== value) here.setAttribute(name, value);
  for (const { name } of [...here.attributes]) if (!next.hasAttribute(name) && name !== "open") here.removeAttribute(name);
  changeChildren(here, next);
}

function changeChildren(here, next) {
  const old = [...here.childNodes];
  [...next.childNodes].forEach((node, index) => {
    const own = old[index];
    if (!own) here.append(document.importNode(node, true));
    else if (own.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) {
      if (own.data !== node.data) own.data = node.data;
    } else if (own.nodeType === Node.ELEMENT_NODE && own.nodeName === node.nodeName) alter(own, node);
    else own.replaceWith(document.importNode(node, true));
  });
  for (const node of old.slice(next.childNodes.length)) node.remove();
}

export function fresh() {
  let isReading = false;
  let isWanted = false;

  async function read() {
    isWanted = true;
    if (isReading) return;
    isReading = true;
    while (isWanted) {
      isWanted = false;
      const before = document.title;
      await readPart("fresh");
      if (document.title !== before) announce(document.title);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    isReading = false;
  }

  setInterval(() => {
    if (!document.hidden && !document.getElementById("fresh").dataset.over) read();
  }, EVERY_MS);
  return { fresh: read };
}
