// Landscapes: the loss along the gap per temperature, and toward the origin.
//
//   modgap.landscapes.render(data)

const { el, add } = modgap.dom;
const { cell } = modgap.number;

function along(data) {
  const base = ["measurement", "pairs", "shift_landscape"];
  const own = data.measurement.pairs.shift_landscape;
  const panels = own.temperatures.map((temperature, i) =>
    ({ title: `temperature ${temperature}`, x: own.gaps, y: own.losses[i] }));
  const zero = own.lambdas.indexOf(0);
  const rows = own.temperatures.map((temperature, i) => {
    const best = modgap.charts.least(own.losses[i]);
    const shown = modgap.number.show(data, [...base, "temperatures", i], { term: "loss", exact: true });
    return { cells: [{ node: shown, csv: temperature },
      cell(data, [...base, "losses", i, zero], { term: "loss" }),
      cell(data, [...base, "losses", i, best], { term: "loss" }),
      cell(data, [...base, "gaps", best], { term: "shift_landscape" })] };
  });
  return modgap.figures.add({
    id: "shift-landscape", title: "Loss along the gap",
    caption: ["The diamond is the gap that training at this temperature prefers. The loss is the mean "
      + "of batches of ", modgap.number.show(data, [...base, "batch_size"], { term: "loss" }), " of ",
    modgap.number.show(data, ["measurement", "pairs", "n_sample"], { term: "pairs" }),
    " pairs, so it is smaller than that of all at once. Each panel has its own scale."],
    describe: "Contrastive loss against the remaining signed gap, one panel per temperature; "
      + "the table below has the least of each.",
    height: (width) => modgap.charts.panelsHeight(panels.length, width),
    draw: (width) => modgap.charts.panels({ panels, width, axis: "remaining gap", lowest: "least loss",
      present: { at: zero >= 0 ? own.gaps[zero] : null, name: "the gap as it is" } }),
    after: modgap.tables.render({ caption: "Least loss along the gap", file: "loss-along-the-gap", rows,
      columns: [{ label: "Temperature" }, { label: "Batch loss as it is", term: "loss" },
        { label: "Least batch loss", term: "loss" }, { label: "At a gap of", term: "shift_landscape" }] }),
  }).element;
}

const KINDS = [["loss", "Loss"], ["alignment", "Alignment term"], ["uniformity", "Uniformity term"],
  ["conformity_divergence", "Divergence of these pairs"]];

function origin(data) {
  const base = ["measurement", "pairs", "origin_landscape"];
  const own = data.measurement.pairs.origin_landscape;
  const kinds = KINDS.filter(([key]) => own[key]);
  const panels = kinds.map(([key, title]) => ({ title, x: own.alphas, y: own[key] }));
  const zero = own.alphas.indexOf(0);
  const rows = kinds.map(([key, title]) => {
    const best = modgap.charts.least(own[key]);
    const term = key === "conformity_divergence" ? key : "origin_landscape";
    return { cells: [title, cell(data, [...base, key, zero], { term }),
      cell(data, [...base, key, best], { term }),
      cell(data, [...base, "alphas", best], { term: "origin_landscape", exact: true })] };
  });
  return modgap.figures.add({
    id: "origin-landscape", title: "Loss toward the origin",
    caption: ["Where the loss is least at 0, training left the modalities where the loss is lowest "
      + "(temperature ",
      modgap.number.show(data, [...base, "temperature"], { term: "loss", exact: true }),
      "); 1 puts each mean at the origin. Of ",
      modgap.number.show(data, ["origin_pairs"], { term: "pairs" }),
      " pairs, one of each group, compared all at once."],
    describe: "Loss, its two terms and the conformity divergence against the share of the mean "
      + "that is subtracted.",
    height: (width) => modgap.charts.panelsHeight(panels.length, width),
    draw: (width) => modgap.charts.panels({ panels, width, axis: "share of the mean subtracted",
      lowest: "least", present: { at: 0, name: "as it is" } }),
    after: modgap.tables.render({ rows, file: "loss-toward-the-origin",
      caption: "Least values toward the origin",
      columns: [{ label: "Quantity" }, { label: "As it is", term: "origin_landscape" },
        { label: "Least", term: "origin_landscape" },
        { label: "At a share of", term: "origin_landscape" }] }),
  }).element;
}

function render(data) {
  const place = document.getElementById("landscapes");
  const pairs = data.measurement?.pairs;
  place.append(el("h2", {}, "Landscapes"));
  const none = !pairs?.shift_landscape && !pairs?.origin_landscape;
  add(place, modgap.head.missing(data, "landscapes",
    none ? "The landscapes need pairs, and there are none." : null));
  if (none) return;
  place.append(el("p", { class: "lead" },
    "What the training loss would be with a wider gap, a narrower gap or none, and nothing else changed."));
  add(place, pairs.shift_landscape ? along(data) : null, pairs.origin_landscape ? origin(data) : null);
}

modgap.landscapes = { render };
