// Tables with a caption, numbers that explain themselves, and a CSV of full precision.
//
//   modgap.tables.render({caption, file, columns, rows, note, hideCaption})
//     columns  [{label, term, text: true for words, className}]; the first column heads its row
//     rows     [{cells, marked, className}]
//     cell     a string, null, or {number, key, term, digits, signed, extra: Node, shade: 0 to 1},
//              or {node: Node, csv: string or number}
//   modgap.tables.csv(columns, rows)     the same as text

const { el } = modgap.dom;

// Spreadsheets run text that begins like a formula; an apostrophe keeps it text.
function guarded(text) {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

function quoted(text) {
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function field(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  if (typeof cell === "string") return quoted(guarded(cell));
  if ("number" in cell) return typeof cell.number === "number" ? String(cell.number) : "";
  return field(cell.csv);
}

function csv(columns, rows) {
  const head = columns.map((column) => field(column.csv ?? column.label)).join(",");
  const lines = rows.map((row) => row.cells.map(field).join(","));
  return `${[head, ...lines].join("\r\n")}\r\n`;
}

function content(cell) {
  if (cell === null || cell === undefined) return "–";
  if (typeof cell === "string") return cell;
  if ("number" in cell) return [modgap.number.element(cell.number, cell.key, cell), cell.extra];
  return cell.node ?? "–";
}

function body(columns, row) {
  const cells = row.cells.map((cell, index) => {
    if (index === 0) return el("th", { scope: "row" }, content(cell));
    const words = columns[index].text || typeof cell === "string";
    const shaded = typeof cell?.shade === "number";
    const made = el("td", { class: words ? "words" : shaded ? "shaded" : null }, content(cell));
    if (shaded) made.style.setProperty("--shade", `${Math.round(100 * cell.shade)}%`);
    return made;
  });
  const mark = [row.marked && "marked", row.className].filter(Boolean).join(" ");
  return el("tr", { class: mark || null }, cells);
}

function csvButton(name, make) {
  const label = `Download the table “${name}” as CSV`;
  return el("button", { type: "button", class: "save", "aria-label": label, title: label,
    on: { click: () => modgap.dom.save(`${slug(name)}.csv`, make(), "text/csv;charset=utf-8") } },
  "CSV");
}

function slug(text) {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "table";
}

function render({ caption, file, columns, rows, note, hideCaption, csvColumns, csvRows }) {
  const head = columns.map((column, index) =>
    el("th", { scope: "col", class: column.text || index === 0 ? "words" : null },
      column.term ? modgap.terms.named(column.term, column.label) : column.label));
  const table = el("table", {},
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, rows.map((row) => body(columns, row))));
  modgap.terms.rove(table);
  const make = () => csv(csvColumns ?? columns, csvRows ?? rows);
  return el("div", { class: "table", "data-table": file ?? slug(caption) },
    el("div", { class: "table-head" },
      el("p", { class: hideCaption ? "visually-hidden" : "table-title", "aria-hidden": "true" }, caption),
      csvButton(file ?? caption, make)),
    el("div", { class: "table-scroll" }, table),
    note ? el("p", { class: "note" }, note) : null);
}

modgap.tables = { render, csv, csvButton, slug };
