// The verdict in two sentences, what its correction demands, and every metric before and after it.
//
//   modgap.verdict.render(data)
(function (modgap) {
  "use strict";

  const { el, svg } = modgap.dom;

  // Word, class and drawing of each verdict: the state is never told by colour alone.
  const STATES = {
    "use": ["Use a correction", "good", "M7 12.5l3.5 3.5L17 9"],
    "leave it alone": ["Leave it alone", "calm", "M7 12h10"],
    "not enough pairs": ["Not enough pairs", "care", "M12 6.5v7M12 16.8v.4"],
    "no pairs": ["No pairs", "care", "M9 9l6 6M15 9l-6 6"],
  };
  const NONE = ["No verdict", "care", "M9.6 9.4a2.5 2.5 0 1 1 3.6 2.3c-.9.5-1.2 1-1.2 1.9M12 17v.3"];

  function mark(path) {
    return svg("svg", { viewBox: "0 0 24 24", class: "mark-state", "aria-hidden": "true" },
      svg("circle", { cx: 12, cy: 12, r: 10.5 }), svg("path", { d: path }));
  }

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

  function tile(data, name, trial) {
    const { show, interval } = modgap.number;
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
    const trial = (diagnosis.trials ?? []).findIndex((one) => one.method === diagnosis.recommended);
    const names = Object.keys(diagnosis.raw.metrics);
    const title = trial >= 0 ? `As it is → with ${diagnosis.recommended}` : "The rows as they are";
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
      el("ul", { class: "tiles" }, names.map((name) => tile(data, name, trial)))];
  }

  function render(data) {
    const [word, state, path] = STATES[data.verdict?.verdict] ?? NONE;
    const [first, ...others] = data.verdict?.sentences ?? [];
    const known = data.verdict?.verdict in STATES;
    const parts = [
      el("h2", { class: "visually-hidden" }, "Verdict"),
      el("div", { class: `verdict ${state}`, "data-verdict": data.verdict?.verdict ?? "none" },
        el("p", { class: "state" }, mark(path), word),
        data.verdict?.label ? el("p", { class: "label" }, `${data.fix?.method ?? ""}: ${data.verdict.label}`) : null,
        first ? el("p", { class: "sentence" }, first) : null,
        others.map((sentence) => el("p", { class: "sentence second" }, sentence)),
        data.fix?.demands ? modgap.demands.more("What it demands, and what to run next", data.fix) : null,
        known && data.diagnosis ? null : modgap.head.missing(data, "verdict")),
      tiles(data),
    ];
    document.getElementById("verdict").replaceChildren(...parts.flat().filter(Boolean));
  }

  modgap.verdict = { render };
})((globalThis.modgap ??= {}));
