// Every correction before and after: a chart of one metric, and the table of all.
//
//   modgap.corrections.render(data)

const { el, add } = modgap.dom;
const { cells, method } = modgap.comparison;

function chart(data, names) {
  const { diagnosis } = data;
  const metric = (scores, name) => scores?.metrics?.[name]?.value;
  return modgap.comparison.chart({ id: "corrections-figure", select: "metric", names,
    goal: diagnosis.goal, title: `Each correction on held-out ${diagnosis.counted}`,
    caption: "Each dot is a correction’s value, the bar its 95 % interval, the dashed line the rows "
      + `as they are. The diamond is ${data.verdict?.label ? "written" : "recommended"}, a ring is not eligible.`,
    count: () => diagnosis.trials.length,
    rows: (name) => diagnosis.trials.map((trial) => ({ label: trial.method, value: null,
      ...metric(trial.confirm, name), marked: trial.method === diagnosis.recommended,
      open: !trial.eligible })),
    reference: (name) => metric(diagnosis.raw, name) }).element;
}

function status(trial, recommended, label) {
  if (trial.method === recommended) return label ? `Written: ${label}` : "Recommended";
  if (trial.eligible) return "Eligible";
  return `Not eligible on the choose split: ${trial.reason}`;
}

// For spreadsheets: value, interval and change with interval, each in a column of its own.
function wide(data, names) {
  const parts = { "": ["value", "value"], " low": ["value", "low"], " high": ["value", "high"],
    " change": ["change", "value"], " change low": ["change", "low"],
    " change high": ["change", "high"] };
  const columns = [{ label: "correction" }, { label: "status" }, { label: "metric" },
    { label: "neighbours_kept_fitted" },
    ...names.flatMap((name) => Object.keys(parts).map((part) => ({ label: `${name}${part}` })))];
  const line = (first, path) => ({ cells: [...first, ...names.flatMap((name) =>
    Object.values(parts).map((part) => modgap.number.at(data, [...path, "metrics", name, ...part])))] });
  const rows = data.diagnosis.trials.map((trial, i) =>
    line([trial.method, status(trial, data.diagnosis.recommended, data.verdict?.label), trial.metric,
      trial.neighbours_kept_fitted], ["diagnosis", "trials", i, "confirm"]));
  return { csvColumns: columns,
    csvRows: [line(["as it is", "", "", null], ["diagnosis", "raw"]), ...rows] };
}

function table(data, names) {
  const { diagnosis } = data;
  const columns = [{ label: "Correction" },
    ...names.map((name) => ({ label: modgap.terms.label(name), term: name })),
    { label: "Kept, fitted rows", term: "kept_fitted" },
    { label: "Status", text: true }];
  const kept = (i) => modgap.number.cell(data, ["diagnosis", "trials", i, "neighbours_kept_fitted"],
    { term: "kept_fitted", digits: 3 });
  const rows = [{ className: "raw",
    cells: ["as it is", ...cells(data, ["diagnosis", "raw"], names), null, ""] },
  ...diagnosis.trials.map((trial, i) => ({ marked: trial.method === diagnosis.recommended,
    cells: [method(trial.method), ...cells(data, ["diagnosis", "trials", i, "confirm"], names), kept(i),
      status(trial, diagnosis.recommended, data.verdict?.label)] }))];
  const rendered = modgap.tables.render({ caption: "Every correction, every metric",
    file: "corrections", columns, rows, ...wide(data, names) });
  rendered.classList.add("brief");
  const box = el("input", { type: "checkbox", id: "more",
    on: { change: () => rendered.classList.toggle("brief", !box.checked) } });
  rendered.querySelector(".table-head").insertBefore(
    el("label", { class: "check", for: "more" }, box, "Show intervals and changes"),
    rendered.querySelector(".table-head .save"));
  return rendered;
}

function notTried(diagnosis) {
  const entries = Object.entries(diagnosis.not_tried ?? {});
  if (!entries.length) return null;
  return el("div", { class: "not-tried" }, el("h3", {}, "Not tried"),
    el("ul", {}, entries.map(([method, why]) =>
      el("li", {}, el("code", {}, method), `: ${why}`))));
}

function render(data) {
  const place = document.getElementById("corrections");
  const { diagnosis } = data;
  place.append(el("h2", {}, "Every correction, before and after"));
  const names = Object.keys(diagnosis?.raw?.metrics ?? {});
  const none = !names.length || !diagnosis.trials?.length;
  add(place, modgap.head.missing(data, "corrections", none ? "No correction was tried." : null),
    none ? null : [el("p", { class: "lead" }, diagnosis.n_groups?.choose === undefined
      ? "Every correction was fitted on one part of the rows. All numbers here are from the other part."
      : "Every correction was fitted on the fit split. The choose split decided which are eligible, and "
        + "chose one. The metrics here are from the confirm split, which neither step saw; reasons name "
        + "the numbers of the choose split."), chart(data, names), table(data, names)],
    diagnosis ? notTried(diagnosis) : null);
}

modgap.corrections = { render };
