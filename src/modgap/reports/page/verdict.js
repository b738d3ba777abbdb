// The verdict in full: its sentences, what its correction demands, and more metrics before and after.
//
//   modgap.verdict.render(data)
//   modgap.verdict.tile(data, name)   one metric before and after; null where it is not known

const { el, svg } = modgap.dom;

// Raw value as a ring, the new one as a dot with its interval, on one scale from zero.
function strip(raw, after) {
  const values = [0, raw?.value, raw?.high, raw?.low, after?.value, after?.low, after?.high]
    .filter((value) => typeof value === "number");
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const at = (value) => 5 + (190 * (value - low)) / span;
  const line = (x1, x2, name) => svg("line", { x1, x2, y1: 8, y2: 8, class: name });
  return svg("svg", { viewBox: "0 0 200 16", class: "strip", "aria-hidden": "true",
    preserveAspectRatio: "none" },
  line(0, 200, "track"),
  after ? line(at(raw.value), at(after.value), "change") : null,
  after ? line(at(after.low ?? after.value), at(after.high ?? after.value), "whisker") : null,
  svg("line", { x1: at(raw.value), x2: at(raw.value), y1: 2, y2: 14, class: "was" }),
  after ? svg("line", { x1: at(after.value), x2: at(after.value), y1: 1, y2: 15, class: "is" }) : null);
}

function recommended({ diagnosis }) {
  return (diagnosis.trials ?? []).findIndex((one) => one.method === diagnosis.recommended);
}

function tile(data, name) {
  const { show, interval } = modgap.number;
  const trial = recommended(data);
  const options = { term: name, digits: 3 };
  const raw = ["diagnosis", "raw", "metrics", name, "value"];
  const before = modgap.number.at(data, raw);
  if (!before || before.value === null) return null;
  const path = ["diagnosis", "trials", trial, "confirm", "metrics", name];
  const after = trial >= 0 ? modgap.number.at(data, [...path, "value"]) : null;
  const values = after
    ? [show(data, [...raw, "value"], options),
      el("span", { class: "arrow", role: "img", "aria-label": "becomes" }, "→"),
      el("strong", {}, show(data, [...path, "value", "value"], options))]
    : [el("strong", {}, show(data, [...raw, "value"], options))];
  return modgap.terms.rove(el("li", { class: "tile", "data-metric": name },
    el("span", { class: "tile-name" }, modgap.terms.named(name)),
    el("span", { class: "tile-values" }, values),
    strip(before, after),
    el("span", { class: "tile-interval" }, "95 % interval ",
      interval(data, after ? [...path, "value"] : raw, options))));
}

function tiles(data) {
  const { diagnosis } = data;
  if (!diagnosis?.raw?.metrics) return null;
  const first = data.headline?.metrics ?? [];
  const names = Object.keys(diagnosis.raw.metrics).filter((name) => !first.includes(name));
  const title = recommended(data) >= 0 ? `More metrics: as it is → with ${diagnosis.recommended}`
    : "More metrics of the rows as they are";
  const groups = diagnosis.n_groups?.confirm;
  const kind = diagnosis.n_groups?.choose === undefined
    ? " rows of each modality that were not used to fit."
    : " groups that were used neither to fit nor to choose.";
  const asking = data.queries?.length ? `, for ${modgap.sides.list(data.queries)} queries` : "";
  return [el("h3", { class: "tiles-title" }, title),
    groups ? el("p", { class: "lead" }, "Measured on ",
      modgap.number.show(data, ["diagnosis", "n_groups", "confirm"],
        { term: kind.startsWith(" groups") ? "groups" : "rows" }),
      `${kind.slice(0, -1)}${asking}. `, data.fix?.note ? `${data.fix.note} ` : null,
      "Point at or tap a number to read what it is.") : null,
    el("ul", { class: "tiles" }, names.map((name) => tile(data, name)))];
}

function render(data) {
  if (!data.diagnosis) return; // the first screen says why
  const [first, ...others] = data.verdict.sentences;
  const parts = [
    el("h2", {}, "The verdict in full"),
    el("div", { class: "verdict", "data-verdict": data.verdict.verdict },
      data.verdict.label ? el("p", { class: "label" }, `${data.fix?.method ?? ""}: ${data.verdict.label}`) : null,
      el("p", { class: "sentence" }, first),
      others.map((sentence) => el("p", { class: "sentence second" }, sentence)),
      data.fix?.demands ? modgap.demands.more("What it demands, and what to run next", data.fix) : null),
    tiles(data),
  ];
  document.getElementById("verdict").replaceChildren(...parts.flat().filter(Boolean));
}

modgap.verdict = { render, tile };
