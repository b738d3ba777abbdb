// Which drawn rows are meant by words.
//
//   modgap.finding.parse(data, words)   a function (side, index) → boolean, or null where there are no words
//
//   dog                 in the caption, the id, the modality with the row number, or any value
//   split: train        rows whose value of the column holds it; =train, exactly
//   year: >2000         numbers: >, >=, <, <=, or from..to
//   a; b                both

const NUMBER = "[-−+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:e[-+]?\\d+)?";
const COMPARED = new RegExp(`^(<=|>=|<|>)\\s*(${NUMBER})$`, "i");
const BETWEEN = new RegExp(`^(${NUMBER})\\s*(?:\\.\\.|…)\\s*(${NUMBER})$`, "i");
const read = (text) => Number(text.replace("−", "-"));
const COMPARE = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };

function numeric(wanted) {
  const compared = COMPARED.exec(wanted);
  if (compared) return (own) => COMPARE[compared[1]](own, read(compared[2]));
  const between = BETWEEN.exec(wanted);
  if (between) return (own) => own >= read(between[1]) && own <= read(between[2]);
  return null;
}

function holds(wanted) {
  const exact = wanted.startsWith("=") ? wanted.slice(1).trim() : null;
  const compares = numeric(wanted);
  return (own) => {
    if (own === null || own === undefined) return false;
    const number = typeof own === "number" ? own : read(String(own));
    if (compares) return !Number.isNaN(number) && String(own).trim() !== "" && compares(number);
    const text = String(own).toLowerCase();
    if (exact !== null) return text === exact;
    return typeof own === "number" ? number === read(wanted) : text.includes(wanted);
  };
}

// What a row has under a name; columns go before what every row has.
function columns(data) {
  const sides = modgap.sides.of(data.picture);
  const known = new Map(Object.entries({
    modality: (side) => data.names[side],
    row: (side, index) => sides[side].rows[index],
    id: (side, index) => modgap.saving.identity(data, side, index).id,
    caption: (side, index) => modgap.saving.identity(data, side, index).caption,
  }));
  for (const field of [...modgap.fields.all(data)].reverse()) {
    known.set(field.name.trim().toLowerCase(), (side, index) => modgap.fields.value(field, side, index));
  }
  return known;
}

function everything(data, side, index) {
  const own = modgap.sides.of(data.picture)[side];
  const values = modgap.fields.all(data).map((field) => modgap.fields.value(field, side, index) ?? "");
  return [`${data.names[side]} ${own.rows[index]}`, own.labels?.[index] ?? "", own.ids?.[index] ?? "", ...values]
    .join("\n").toLowerCase();
}

function part(data, known, words) {
  const names = [...known.keys()].filter((name) => name && words.startsWith(name)
    && words.slice(name.length).trimStart().startsWith(":"));
  const name = names.sort((a, b) => b.length - a.length)[0];
  const wanted = name === undefined ? "" : words.slice(name.length).trimStart().slice(1).trim();
  if (!wanted) return (side, index) => everything(data, side, index).includes(words);
  const test = holds(wanted);
  return (side, index) => test(known.get(name)(side, index));
}

function parse(data, words) {
  const known = columns(data);
  const parts = words.toLowerCase().split(";").map((one) => one.trim()).filter(Boolean)
    .map((one) => part(data, known, one));
  return parts.length ? (side, index) => parts.every((test) => test(side, index)) : null;
}

modgap.finding = { parse };
