// Colours of terminals as classes. What is no colour is left out; control characters are shown as signs.
const ESCAPE = /\x1b(?:\[([0-9;:]*)([ -/]*[@-~])|[\]P^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?|\x9b/g;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
const LINE_MAX = 4000;
const PARTS_MAX = 200;
const BASIC = [[0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229]];
const FONTS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const ENDS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
export const PLAIN = Object.freeze({ fg: "", bg: "", fonts: "" });

// The text without escapes, as parts with classes, and the style that the next line begins with.
export function colourise(line, begin = PLAIN) {
  const parts = [];
  let style = begin;
  let from = 0;
  const text = line.slice(Math.max(0, line.lastIndexOf("\r", line.length - 2) + 1));
  const add = (until) => {
    const words = text.slice(from, until).replace(CONTROL, sign).slice(0, LINE_MAX);
    const last = parts[parts.length - 1];
    const classes = classesOf(style);
    if (!words) return;
    if (last && (last.classes === classes || parts.length >= PARTS_MAX)) last.text += words;
    else parts.push({ text: words, classes });
  };
  const bounded = text.length > LINE_MAX * 4 ? text.slice(0, LINE_MAX * 4) : text;
  for (const found of bounded.matchAll(ESCAPE)) {
    add(found.index);
    from = found.index + found[0].length;
    if (found[2] === "m") style = changed(style, found[1]);
  }
  add(bounded.length);
  return { parts, style };
}

function sign(character) {
  const code = character.charCodeAt(0);
  if (character === "\r") return "";
  return code < 32 ? String.fromCharCode(0x2400 + code) : "\ufffd";
}

function classesOf({ fg, bg, fonts }) {
  return [fonts, fg && `fg-${fg}`, bg && `bg-${bg}`].filter(Boolean).join(" ");
}

function changed(style, text) {
  const codes = text.split(/[;:]/).slice(0, 32).map(Number);
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) next = PLAIN;
    else if (FONTS[code]) next = { ...next, fonts: fontsOf(next.fonts, [], FONTS[code]) };
    else if (ENDS[code]) next = { ...next, fonts: fontsOf(next.fonts, ENDS[code], "") };
    else if (code >= 30 && code < 38) next = { ...next, fg: String(code - 30) };
    else if (code >= 90 && code < 98) next = { ...next, fg: String(code - 90) };
    else if (code >= 40 && code < 48) next = { ...next, bg: String(code - 40) };
    else if (code >= 100 && code < 108) next = { ...next, bg: String(code - 100) };
    else if (code === 39) next = { ...next, fg: "" };
    else if (code === 49) next = { ...next, bg: "" };
    else if (code === 38 || code === 48) {
      const isNamed = codes[at + 1] === 5;
      const name = isNamed ? nearestOf256(codes[at + 2]) : nearest(codes.slice(at + 2, at + 5));
      next = { ...next, [code === 38 ? "fg" : "bg"]: name };
      at += isNamed ? 2 : 4;
    }
  }
  return next;
}

function fontsOf(now, without, one) {
  const kept = now.split(" ").filter((font) => font && font !== one && !without.includes(font));
  return [...kept, one].filter(Boolean).join(" ");
}

function nearestOf256(number) {
  if (!(number >= 0 && number < 256)) return "";
  if (number < 16) return String(number % 8);
  if (number > 231) return nearest(Array(3).fill(8 + 10 * (number - 232)));
  const rest = number - 16;
  return nearest([Math.floor(rest / 36), Math.floor(rest / 6) % 6, rest % 6].map((part) => part * 51));
}

function nearest(colour) {
  if (colour.length < 3 || colour.some((part) => !(part >= 0 && part < 256))) return "";
  const distances = BASIC.map((basic) => basic.reduce((sum, part, index) => sum + (part - colour[index]) ** 2, 0));
  return String(distances.indexOf(Math.min(...distances)));
}
