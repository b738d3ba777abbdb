// Geometry: cosines and shells of the two modalities, then their features.
//
//   modgap.geometry.render(data)
(function (modgap) {
  "use strict";

  const { el, add } = modgap.dom;
  const { cell } = modgap.number;

  function cosines(data) {
    const { cosines: own, names } = data;
    const kinds = [["within_x", `within ${names[0]}`], ["within_y", `within ${names[1]}`],
      ["matching", "matching, across"], ["others", "non-matching, across"]];
    const rows = kinds.filter(([key]) => own[key]).map(([key, label]) => ({ cells: [label,
      cell(data, ["cosines", "mean", key], { term: "cosines" })] }));
    return modgap.figures.add({
      id: "cosines", title: "Cosines within and across",
      caption: own.matching
        ? "Where rows of one modality are nearer to each other than to their matches, "
          + "an index of both returns the query’s own modality."
        : "How alike the rows of one modality are. Across modalities this needs pairs.",
      describe: "Overlaid densities of cosines; the means are in the table below.",
      draw: () => {
        const colours = modgap.theme.colours();
        const looks = { within_x: [colours.x, "solid"], within_y: [colours.y, "dash"],
          matching: [colours.match, "dashdot"], others: [colours.other, "dot"] };
        return modgap.charts.histogram({ edges: own.edges, axis: "cosine",
          series: kinds.map(([key, name]) =>
            ({ name, counts: own[key], colour: looks[key][0], dash: looks[key][1] })) });
      },
      after: modgap.tables.render({ caption: "Mean cosine", file: "cosines", rows,
        columns: [{ label: "Pairs of rows" }, { label: "Mean cosine", term: "cosines" }] }),
    }).element;
  }

  function shell(data) {
    const { shell: own, names } = data;
    const rows = names.map((name, i) => ({ cells: [name,
      cell(data, ["shell", "radius", i], { term: "shell" }),
      cell(data, ["shell", "expected", i], { term: "shell" }),
      cell(data, ["shell", "offset", i], { term: "shell_offset" })] }));
    return modgap.figures.add({
      id: "shell", title: "Thin shells",
      caption: "On a thin shell all rows are at about one distance from their mean: "
        + "the root of the trace of the covariance (the vertical lines).",
      describe: "Densities of the distances of rows from the mean of their modality, "
        + "with the expected radius of each.",
      draw: () => {
        const colours = modgap.theme.colours();
        return modgap.charts.histogram({ edges: own.edges, axis: "distance from the modality’s mean",
          series: modgap.charts.sides(names, [{ counts: own.x }, { counts: own.y }]),
          lines: names.map((name, i) => ({ at: own.expected?.[i], name: `expected, ${name}`,
            colour: [colours.x, colours.y][i], dash: ["solid", "dot"][i] })) });
      },
      after: modgap.tables.render({ caption: "Shells", file: "shells", rows,
        columns: [{ label: "Modality" }, { label: "Mean radius", term: "shell" },
          { label: "√ trace", term: "shell" }, { label: "Offset", term: "shell_offset" }] }),
    }).element;
  }

  function render(data) {
    const place = document.getElementById("geometry");
    place.append(el("h2", {}, "Geometry"), el("p", { class: "lead" },
      "Where each modality is in the space: how alike its rows are, how far they are from their mean, "
      + "and which features tell the two modalities apart."));
    const parts = [["cosines", () => [cosines(data)]], ["shell", () => [shell(data)]],
      ["features", () => modgap.features.figures(data)]];
    const grid = el("div", { class: "figures" });
    for (const [section, make] of parts) {
      add(grid, data[section] ? make() : null, modgap.head.missing(data, section,
        data[section] ? null : `There is nothing to draw here: ${section}.`));
    }
    place.append(grid);
  }

  modgap.geometry = { render };
})((globalThis.modgap ??= {}));
