// Every measure as one table, and where the numbers come from.
//
//   modgap.measures.render(data)
(function (modgap) {
  "use strict";

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
    const { measures, names } = data;
    place.append(el("h2", {}, "Every measure"));
    if (!measures?.length) {
      place.append(modgap.head.missing(data, "measures", "Nothing was measured."));
      return;
    }
    // 1 beside 0.998 is 1.000: both sides of a row have the same number of places.
    const places = ({ x, y }) => ([x, y].some((value) => typeof value === "number"
      && !Number.isInteger(value) && Math.abs(value) < 10 && Math.abs(value) >= 0.001) ? 3 : undefined);
    const cell = (i, part, term) => ({ number: measures[i][part], key: `measures.${i}.${part}`, term,
      digits: part === "both" || Math.abs(measures[i][part]) < 0.001 ? undefined : places(measures[i]) });
    const rows = measures.map((one, i) => ({ cells: [
      { node: modgap.terms.named(one.term, one.label), csv: one.label },
      cell(i, "x", one.term), cell(i, "y", one.term), cell(i, "both", one.term)] }));
    place.append(modgap.tables.render({ caption: "Every measure of the rows as they are",
      file: "measures", rows, hideCaption: true,
      columns: [{ label: "Measure" }, { label: names[0] }, { label: names[1] }, { label: "both" }] }));
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
})((globalThis.modgap ??= {}));
