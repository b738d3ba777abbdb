// Every measure as one table, and where the numbers come from.
//
//   modgap.measures.render(data)

const { el } = modgap.dom;
const PAPERS = [
  ["Liang et al. 2022", "Mind the Gap: Understanding the Modality Gap in Multi-modal Contrastive "
    + "Representation Learning"],
  ["Yaras et al. 2024", "Explaining and Mitigating the Modality Gap in Contrastive Multimodal Learning"],
  ["Levi and Gilboa 2025", "The Double-Ellipsoid Geometry of CLIP"],
  ["Chowers et al. 2026", "Is the Modality Gap a Bug or a Feature? A Robustness Perspective"],
];

function table(data) {
  const place = document.getElementById("measures");
  const { measures } = data;
  const columns = data.measure_columns ?? data.names;
  place.append(el("h2", {}, "Every measure"));
  if (!measures?.length) {
    place.append(modgap.head.missing(data, "measures", "Nothing was measured."));
    return;
  }
  const rows = measures.map((one, i) => ({ cells: [
    { node: modgap.terms.named(one.term, one.label), csv: one.label },
    ...sides(data, ["measures", i], one),
    modgap.number.cell(data, ["measures", i, "both"], { term: one.term })] }));
  place.append(el("p", { class: "lead" }, "Of all rows as they are, not only of the held-out ones that the "
    + `metrics above are measured on. ${data.measured_on ?? ""}`));
  place.append(modgap.tables.render({ caption: "Every measure of the rows as they are",
    file: "measures", rows, hideCaption: true,
    columns: [{ label: "Measure" }, ...columns.map((label) => ({ label })),
      { label: data.names.length > 2 ? "all" : "both" }] }));
  if (data.every_two) place.append(everyTwo(data));
}

// 1 beside 0.998 is 1.000: all sides of a row have the same number of places.
function sides(data, path, one) {
  const values = modgap.sides.of(one);
  const uneven = values.some((value) => typeof value === "number" && !Number.isInteger(value)
    && Math.abs(value) < 10 && Math.abs(value) >= 0.001);
  return values.map((value, i) => modgap.number.cell(data, [...path, ...modgap.sides.path(one, i)],
    { term: one.term, digits: uneven && Math.abs(value) >= 0.001 ? 3 : undefined }));
}

// One row for every two modalities, one column for each measure.
function everyTwo(data) {
  const { names, lines } = data.every_two;
  const columns = lines.map((line, i) => sides(data, ["every_two", "lines", i], line));
  return modgap.tables.render({ caption: "Every two modalities", file: "every-two",
    columns: [{ label: "Modalities" }, ...lines.map(({ label, term }) => ({ label, term }))],
    rows: names.map((two, i) => ({ cells: [modgap.sides.list(two), ...columns.map((cells) => cells[i])] })) });
}

function sources(data) {
  const { show } = modgap.number;
  const place = document.getElementById("sources");
  const missing = Object.entries(data.missing ?? {});
  place.append(el("h2", {}, "Where the numbers come from"), el("ul", { class: "plain" },
    (data.sampling ?? []).map((sentence) => el("li", {}, sentence)),
    el("li", {}, "Samples, splits and noise are drawn with seed ", show(data, ["seed"], { term: "seed" }),
      `. Written by modgap ${data.version ?? ""}.`)));
  if (missing.length) {
    place.append(el("h3", {}, "What is not shown"), el("ul", { class: "plain" },
      missing.map(([, sentence]) => el("li", {}, sentence))));
  }
  place.append(el("h3", {}, "The papers behind the numbers"), el("ul", { class: "plain" },
    PAPERS.map(([who, what]) => el("li", {}, `${who}: `, el("cite", {}, what)))));
}

function render(data) {
  table(data);
  sources(data);
}

modgap.measures = { render };
