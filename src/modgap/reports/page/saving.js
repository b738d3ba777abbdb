// Selected rows as files: their numbers, ids, captions and everything else that is known of them.
//
//   modgap.saving.identity(data, side, index)   {modality, row, id, caption}
//   modgap.saving.csv(data, items), modgap.saving.json(data, items)   items are [{side, index}]
//   modgap.saving.numbers(data, items)          row numbers by modality, as JSON and Python read them

const SCHEMA = "modgap/selection/1";

function identity(data, side, index) {
  const own = modgap.sides.of(data.picture)[side];
  const label = own.labels?.[index] ?? null;
  const captioned = own.labelled_by === "captions";
  return { modality: data.names[side], row: own.rows[index],
    id: captioned ? own.ids?.[index] ?? null : label, caption: captioned ? label : null };
}

function csv(data, items) {
  const fields = modgap.fields.all(data);
  const columns = ["modality", "row", "id", "caption", ...fields.map((field) => field.name)]
    .map((label) => ({ label }));
  const rows = items.map(({ side, index }) => ({ cells: [...Object.values(identity(data, side, index)),
    ...fields.map((field) => modgap.fields.value(field, side, index))] }));
  return modgap.tables.csv(columns, rows);
}

function byModality(data, items) {
  return Object.fromEntries(data.names.map((name, side) => [name, items.filter((one) => one.side === side)
    .map((one) => modgap.sides.of(data.picture)[side].rows[one.index])]));
}

function json(data, items) {
  const fields = modgap.fields.all(data);
  return `${JSON.stringify({ schema: SCHEMA, title: data.title ?? null, source: data.source ?? null,
    rows: byModality(data, items),
    items: items.map(({ side, index }) => ({ ...identity(data, side, index),
      fields: Object.fromEntries(fields.map((field) => [field.name, modgap.fields.value(field, side, index)])) })),
  }, null, 1)}\n`;
}

function numbers(data, items) {
  return JSON.stringify(byModality(data, items));
}

modgap.saving = { identity, csv, json, numbers };
