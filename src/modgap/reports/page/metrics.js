// The numbers beside the picture: every metric along the path, and where on it the slider is.
//
//   const metrics = modgap.metrics.make(data)
//   metrics.element, metrics.path(index)   another path
//   metrics.step(index)                    another step: values exactly as measured there

const { el, svg } = modgap.dom;
const WIDE = 88;
const HIGH = 24;

// Every series of a path as {key, term, label, path}: metrics first, then the losses.
function series(data, index) {
  const path = data.paths[index];
  const metrics = Object.keys(path.metrics ?? {}).map((name) =>
    ({ term: name, label: modgap.terms.label(name), path: ["paths", index, "metrics", name] }));
  const losses = Object.keys(path.losses ?? {})
    .sort((a, b) => Number(a) - Number(b))
    .map((temperature) => ({ term: "loss", label: `Held-out loss at temperature ${temperature}`,
      path: ["paths", index, "losses", temperature] }));
  return [...metrics, ...losses];
}

function spark(values, steps) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  const width = steps.at(-1) - steps[0] || 1;
  const x = (i) => 4 + ((WIDE - 8) * (steps[i] - steps[0])) / width;
  const y = (value) => (span ? HIGH - 4 - ((HIGH - 8) * (value - low)) / span : HIGH / 2);
  const points = values.map((value, i) => (value === null ? null : `${x(i)},${y(value)}`)).filter(Boolean);
  const dot = svg("circle", { r: 3.5 });
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "spark", "aria-hidden": "true" },
    svg("polyline", { points: points.join(" ") }), dot);
  const mark = (i) => {
    const there = values[i] !== null && values[i] !== undefined;
    dot.style.display = there ? "" : "none";
    if (!there) return;
    dot.setAttribute("cx", x(i));
    dot.setAttribute("cy", y(values[i]));
  };
  return { drawing, mark };
}

function make(data) {
  const body = el("tbody", {});
  const note = el("p", { class: "note" });
  const table = el("table", { class: "numbers" },
    el("caption", { class: "visually-hidden" }, "Metrics at this step"),
    el("thead", { class: "visually-hidden" }, el("tr", {}, ["Metric", "At every step", "At this step"]
      .map((name) => el("th", { scope: "col" }, name)))), body);
  let rows = [];
  let at = 0;

  function csv() {
    const all = series(data, at);
    const columns = [{ label: "step" }, ...all.map((one) => ({ label: one.path.at(-1) }))];
    const lines = data.paths[at].steps.map((step, i) => ({ cells: [step,
      ...all.map((one) => modgap.number.at(data, [...one.path, i]))] }));
    return modgap.tables.csv(columns, lines);
  }

  function path(index) {
    at = index;
    const { steps, losses } = data.paths[index];
    rows = series(data, index).map((one) => {
      const values = modgap.number.at(data, one.path);
      const { drawing, mark } = spark(values, steps);
      const digits = one.term === "loss" ? undefined : 3;
      const number = modgap.number.show(data, [...one.path, 0], { term: one.term, digits });
      const row = el("tr", {}, el("th", { scope: "row" }, modgap.terms.named(one.term, one.label)),
        el("td", {}, drawing), el("td", {}, number));
      return { ...one, values, mark, number, row, digits };
    });
    body.replaceChildren(...rows.map((one) => one.row));
    modgap.terms.rove(table);
    note.replaceChildren("Measured at every step on ",
      modgap.number.show(data, ["paths", index, "n_groups"], { term: data.paired ? "groups" : "rows" }),
      ` held-out ${data.diagnosis?.counted ?? "groups"}.`, ...(losses ? [" Losses are those of ",
        modgap.number.show(data, ["paths", index, "n_pairs"], { term: "pairs" }),
        " held-out pairs, compared all at once."] : []), " Each curve has its own scale.");
  }

  function step(index) {
    for (const one of rows) {
      one.mark(index);
      modgap.number.update(one.number, one.values[index], [...one.path, index].join("."),
        { digits: one.digits });
    }
  }

  const element = el("div", { class: "numbers-panel", id: "numbers" },
    el("div", { class: "figure-head" }, el("h3", {}, "What changes"),
      modgap.tables.csvButton("Metrics along the path", csv)), table, note);
  return { element, path, step };
}

modgap.metrics = { make };
