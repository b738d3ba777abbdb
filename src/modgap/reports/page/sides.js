// The modalities: their values in the document, and how each looks.
//
//   modgap.sides.of(one, key)        what `one` has of each modality: two under x and y, more in a list;
//                                    `key` is the name before _x and _y, or of the list
//   modgap.sides.path(one, i, key)   the keys that lead from `one` to the value of the i-th
//   modgap.sides.look(i)             {colour, dash, symbol} of the i-th: never told by colour alone
//   modgap.sides.key(i)              the name of its colour: x, y, s2 …
//   modgap.sides.mark(i)             its mark, to stand before its name
//   modgap.sides.list(names)         "image, text and audio"

const LETTERS = ["x", "y"];
const COLOURS = ["x", "y", "s2", "s3", "s4", "s5"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const SYMBOLS = ["circle", "diamond", "square", "cross", "x", "circle-open"];

function of(one, key) {
  return one[key ?? "sides"] ?? LETTERS.map((side) => one[key ? `${key}_${side}` : side]);
}

function path(one, i, key) {
  if (one[key ?? "sides"]) return [key ?? "sides", i];
  return [key ? `${key}_${LETTERS[i]}` : LETTERS[i]];
}

function look(i) {
  const at = i % COLOURS.length;
  return { colour: modgap.theme.colours()[COLOURS[at]], dash: DASHES[at], symbol: SYMBOLS[at] };
}

const key = (i) => COLOURS[i % COLOURS.length];

function mark(i) {
  return modgap.dom.el("i", { class: `mark ${key(i)}`, "aria-hidden": "true" });
}

function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

modgap.sides = { of, path, look, key, mark, list };
