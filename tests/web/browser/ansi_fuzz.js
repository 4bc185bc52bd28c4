async (address) => {
  const { colourise, PLAIN } = await import(address);
  let state = 7;
  const random = (below) => (state = (state * 48271) % 2147483647) % below;
  const pieces = [
    "\x1b", "\x1b", "[", "]", "m", ";", ":", "38;5;", "48;2;", "0", "999999999999", "\x07", "\x9b", "\r", "\t", "\u202e", "<b>",
    "&", "text", "\x00", "\ud800", "1", "H", "?25l", "\x1b\\", " ",
  ];
  const isClasses = /^((bold|dim|italic|underline|inverse|strike|[fb]g-[0-7])( |$))*$/;
  const isControl = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e]/;
  const wrong = [];
  for (let round = 0; round < 20000; round += 1) {
    const line = Array.from({ length: random(30) }, () => pieces[random(pieces.length)]).join("");
    const begin = round % 2 ? PLAIN : { fg: "1", bg: "", fonts: "bold" };
    const { parts, style } = colourise(line, begin);
    const isFair = parts.every(({ text, classes }) => isClasses.test(classes) && !isControl.test(text));
    if (!isFair || !/^[0-7]?$/.test(style.fg)) wrong.push(JSON.stringify([line, parts]));
  }
  const begun = performance.now();
  const long = colourise("\x1b[31mx\x1b[32my".repeat(100000)).parts;
  colourise("\x1b]".repeat(1000000));
  const length = long.reduce((sum, { text }) => sum + text.length, 0);
  return { wrong: wrong.slice(0, 3), parts: long.length, length, ms: performance.now() - begun };
}
