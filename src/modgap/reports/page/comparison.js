// Corrections beside each other: the chart of one metric, the cells of all, and their names.
//
//   modgap.comparison.chart({id, select, title, caption, names, goal, rows, reference, count})
//     goal        what to improve; its metric is shown first
//     rows(name)  [{label, value, low, high, marked, open}] for a metric; reference(name) the rows
//                 as they are; count() how many rows there are
//   modgap.comparison.cells(data, path, names)   table cells of the metrics at a path
//   modgap.comparison.method(name, ...more)      a cell with the name of a correction

const { el } = modgap.dom;
const GOALS = { mixed: "mixed_ndcg@10", robust: "robust_to_noise", quantised: "robust_to_1bit" };

function chart({ id, select, title, caption, names, goal, rows, reference, count }) {
  const wanted = GOALS[goal] ?? GOALS.mixed;
  const box = el("select", { id: select, on: { change: () => {
    explain();
    figure.redraw();
  } } }, names.map((name) => el("option", { value: name, selected: name === wanted },
    modgap.terms.label(name))));
  const about = el("p", { class: "note" });
  const explain = () => {
    about.textContent = modgap.terms.find(box.value)?.definition ?? "";
  };
  explain();
  const figure = modgap.figures.add({ id, title, caption,
    describe: "Dot and whisker chart of one metric for every correction; the table has all numbers.",
    height: (width) => modgap.charts.intervalsHeight(count(), width),
    controls: el("div", { class: "controls" },
      el("div", { class: "field" }, el("label", { for: select }, "Metric"), box), about),
    draw: (width) => modgap.charts.intervals({ rows: rows(box.value), width,
      axis: modgap.terms.label(box.value),
      reference: { label: "as it is", ...reference(box.value) } }) });
  return figure;
}

// The interval, and the change with its interval, below a number.
function more(data, path, name) {
  const change = modgap.number.at(data, [...path, "change"]);
  const options = { term: name, digits: 3 };
  const signed = { ...options, signed: true };
  return el("span", { class: "more" },
    el("span", {}, modgap.number.interval(data, [...path, "value"], options)),
    change ? el("span", {}, modgap.number.show(data, [...path, "change", "value"], signed), " ",
      modgap.number.interval(data, [...path, "change"], signed)) : null);
}

function cells(data, path, names) {
  return names.map((name) => {
    const own = [...path, "metrics", name];
    return { ...modgap.number.cell(data, [...own, "value", "value"], { term: name, digits: 3 }),
      extra: more(data, own, name) };
  });
}

// Long names may break after a bracket or a comma, and nowhere else.
function method(name, ...more) {
  return { csv: name, node: el("div", { class: "method-name" },
    name.split(/(?<=\(|, )/).flatMap((part, i) => (i ? [el("wbr"), part] : [part])), more) };
}

modgap.comparison = { chart, cells, method };
