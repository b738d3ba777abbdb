// Geometry: cosines and shells of the modalities, then their features.
//
//   modgap.geometry.render(data)

const { el, add } = modgap.dom;
const { cell } = modgap.number;

function cosines(data) {
  const { cosines: own, names } = data;
  const within = modgap.sides.of(own, "within");
  const kinds = [...names.map((name, i) => ({ name: `within ${name}`, counts: within[i],
    path: modgap.sides.path(own.mean, i, "within") })),
  { name: "matching, across", counts: own.matching, path: ["matching"] },
  { name: "non-matching, across", counts: own.others, path: ["others"] }].filter((one) => one.counts);
  const rows = kinds.map(({ name, path }) => ({ cells: [name,
    cell(data, ["cosines", "mean", ...path], { term: "cosines" })] }));
  return modgap.figures.add({
    id: "cosines", title: "Cosines within and across",
    caption: own.matching
      ? "Where rows of one modality are nearer to each other than to their matches, "
        + `an index of ${names.length > 2 ? "all" : "both"} returns the query’s own modality.`
      : "How alike the rows of one modality are. Across modalities this needs pairs.",
    describe: "Overlaid densities of cosines; the means are in the table below.",
    draw: () => {
      const colours = modgap.theme.colours();
      // A third modality has the colour of matches, which are then black.
      const [match, other] = names.length > 2 ? [colours.ink, colours.muted]
        : [colours.match, colours.other];
      const across = { matching: { colour: match, dash: "dashdot" }, others: { colour: other, dash: "dot" } };
      return modgap.charts.histogram({ edges: own.edges, axis: "cosine",
        series: kinds.map(({ name, counts, path }, i) =>
          ({ name, counts, ...(across[path[0]] ?? modgap.sides.look(i)) })) });
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
      return modgap.charts.histogram({ edges: own.edges, axis: "distance from the modality’s mean",
        series: modgap.charts.sides(names, modgap.sides.of(own).map((counts) => ({ counts }))),
        lines: names.map((name, i) => ({ at: own.expected?.[i], name: `expected, ${name}`,
          colour: modgap.sides.look(i).colour, dash: ["solid", "dot"][i] ?? "dashdot" })) });
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
    + (data.names.length > 2 ? "and how its features vary." : "and which features tell the two modalities apart.")));
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
