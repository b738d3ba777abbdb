// Every correction before and after: a chart of one figure, and the table of all.
//
//   modgap.corrections.render(data)
(function (modgap) {
  "use strict";

  const { el } = modgap.dom;
  const GOALS = { mixed: "mixed_ndcg@10", robust: "robust_to_noise", quantised: "robust_to_1bit" };

  function chart(data, names) {
    const { diagnosis } = data;
    let name = names.includes(GOALS[diagnosis.goal]) ? GOALS[diagnosis.goal] : names[0];
    const rows = () => diagnosis.trials.map((trial) => ({ label: trial.method,
      ...(trial.confirm?.metrics?.[name]?.value ?? { value: null, low: null, high: null }),
      marked: trial.method === diagnosis.recommended, open: !trial.eligible }));
    const box = el("select", { id: "figure", on: { change: () => {
      name = box.value;
      explain();
      figure.redraw();
    } } }, names.map((one) => el("option", { value: one, selected: one === name },
      modgap.terms.label(one))));
    const about = el("p", { class: "note" });
    const explain = () => {
      about.textContent = modgap.terms.find(name)?.definition ?? "";
    };
    explain();
    const figure = modgap.figures.add({
      id: "corrections-figure", title: "Each correction on held-out groups",
      caption: "Each dot is a correction’s value, the bar its 95 % interval, the dashed line the rows "
        + "as they are. The diamond is recommended, a ring is not eligible.",
      describe: "Dot and whisker chart of one figure for every correction; "
        + "the table below has all numbers.",
      height: (width) => modgap.charts.intervalsHeight(diagnosis.trials, width),
      controls: el("div", { class: "controls" },
        el("div", { class: "field" }, el("label", { for: "figure" }, "Figure"), box), about),
      draw: (width) => modgap.charts.intervals({ rows: rows(), width,
        axis: modgap.terms.label(name),
        reference: { label: "as it is", ...(diagnosis.raw.metrics[name]?.value ?? {}) } }),
    });
    return figure.element;
  }

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
      const key = [...own, "value", "value"];
      return { number: modgap.number.at(data, key), key: key.join("."), term: name, digits: 3,
        extra: more(data, own, name) };
    });
  }

  // Long names may break after a bracket or a comma, and nowhere else.
  function method(name) {
    return { csv: name, node: el("span", { class: "method-name" },
      name.split(/(?<=\(|, )/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]))) };
  }

  function status(trial, recommended) {
    if (trial.method === recommended) return "Recommended";
    if (trial.eligible) return "Eligible";
    return `Not eligible: ${trial.reason}`;
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
      line([trial.method, status(trial, data.diagnosis.recommended), trial.metric,
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
    const kept = (i) => ({ number: diagnosis.trials[i].neighbours_kept_fitted ?? null, digits: 3,
      key: `diagnosis.trials.${i}.neighbours_kept_fitted`, term: "kept_fitted" });
    const rows = [{ className: "raw",
      cells: ["as it is", ...cells(data, ["diagnosis", "raw"], names), null, ""] },
    ...diagnosis.trials.map((trial, i) => ({ marked: trial.method === diagnosis.recommended,
      cells: [method(trial.method), ...cells(data, ["diagnosis", "trials", i, "confirm"], names), kept(i),
        status(trial, diagnosis.recommended)] }))];
    const rendered = modgap.tables.render({ caption: "Every correction, every figure",
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
        el("li", {}, el("code", {}, method), ` ${why}`))));
  }

  function render(data) {
    const place = document.getElementById("corrections");
    const { diagnosis } = data;
    place.append(el("h2", {}, "Every correction, before and after"));
    const names = Object.keys(diagnosis?.raw?.metrics ?? {});
    const none = !names.length || !diagnosis.trials?.length;
    const sentence = modgap.head.missing(data, "corrections", none ? "No correction was tried." : null);
    if (sentence) place.append(sentence);
    if (none) {
      if (diagnosis) place.append(...[notTried(diagnosis)].filter(Boolean));
      return;
    }
    place.append(el("p", { class: "lead" }, "Every correction was fitted on one part of the groups, "
      + "one was chosen on a second, and all numbers here are from a third that neither step saw."),
    chart(data, names), table(data, names), ...[notTried(diagnosis)].filter(Boolean));
  }

  modgap.corrections = { render };
})((globalThis.modgap ??= {}));
