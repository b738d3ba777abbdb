// What is known of the drawn rows beside their captions: columns of the file, labels, sizes of groups.
//
//   modgap.fields.all(data)                   the fields of the document, [] where it has none
//   modgap.fields.value(field, side, index)   the value of a row: a text, a number, or null
//   modgap.fields.text(value)                 the same as text
//   modgap.fields.item(data, side, index, ...more)   a drawn row: picture, name, label and its fields
//   modgap.fields.every(data)                 every drawn row as {side, index}

const { el, image } = modgap.dom;

function all(data) {
  return data.picture?.fields ?? [];
}

function value(field, side, index) {
  const own = modgap.sides.of(field)[side]?.[index] ?? null;
  return own === null || field.kind === "number" ? own : field.values[own];
}

function text(own) {
  if (own === null) return "no value";
  if (own === "") return "(empty)";
  return typeof own === "number" ? String(own).replace("-", "−") : own;
}

function list(data, side, index) {
  const known = all(data).map((field) => [field.name, value(field, side, index)])
    .filter(([, own]) => own !== null);
  if (!known.length) return null;
  return el("dl", { class: "fields" }, known.map(([name, own]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, text(own)))));
}

function item(data, side, index, ...more) {
  const own = modgap.sides.of(data.picture)[side];
  const label = own.labels?.[index];
  return [image(own.thumbnails?.[index], ""), el("div", { class: "item-words" },
    el("p", { class: "item-name" }, modgap.sides.mark(side), `${data.names[side]}, row `,
      modgap.number.show(data, ["picture", ...modgap.sides.path(data.picture, side), "rows", index],
        { term: "row" }), more),
    label ? el("p", { class: "item-label" }, label) : null, list(data, side, index))];
}

function every(data) {
  return modgap.sides.of(data.picture).flatMap((own, side) => own.rows.map((_, index) => ({ side, index })));
}

modgap.fields = { all, value, text, item, every };
