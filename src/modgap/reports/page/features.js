// Features: which tell the modalities apart, how much each varies, and how they move together.
//
//   modgap.features.figures(data)   [element, …] for the section on geometry

const { plain } = modgap.dom;
const { format } = modgap.number;
const TAG = 1;
const TOP = 12;
const BINS = 30;

// Places 1, 2, 3 … of sorted features; a few of them are all named.
function ranks(count) {
  return count < 12 ? { dtick: 1 } : {};
}

function separability(data) {
  const { features: own } = data;
  const all = own.separability;
  const order = own.order.filter((feature) => typeof all[feature] === "number");
  const tags = order.filter((feature) => all[feature] > TAG).length;
  const top = order.slice(0, TOP);
  return modgap.figures.add({
    id: "separability", title: "How well each feature tells the modality",
    caption: [typeof data.measurement?.n_tags === "number"
      ? modgap.number.show(data, ["measurement", "n_tags"], { term: "tags" }) : tags, " of ",
    modgap.number.show(data, ["dim"], { term: "dim" }),
    " features are above 1: one such feature nearly tells the modality of a row on its own."],
    describe: `Separability of ${all.length} features from the largest to the smallest; `
      + `${tags} are above 1.`,
    height: (width) => (width < 620 ? 560 : 360),
    draw: (width) => {
      const colours = modgap.theme.colours();
      const narrow = width < 620;
      const bar = (feature) => (all[feature] > TAG ? colours.y : colours.x);
      const sign = (feature) => (all[feature] > TAG ? "diamond" : "circle");
      const text = (feature) => `feature ${feature}<br>separability ${format(all[feature])}`;
      const line = { type: "line", line: { color: colours.muted, width: 1.5, dash: "dash" } };
      return { traces: [
        { type: "bar", x: order.map((_, i) => i + 1), y: order.map((feature) => all[feature]),
          marker: { color: order.map(bar), line: { width: 0 } }, hoverinfo: "text",
          hovertext: order.map(text) },
        { type: "scatter", mode: "markers", xaxis: "x2", yaxis: "y2",
          x: top.map((feature) => all[feature]), y: top.map((_, i) => -i), hoverinfo: "text",
          hovertext: top.map(text), marker: { size: 9, color: top.map(bar), symbol: top.map(sign) } },
      ], layout: {
        showlegend: false, bargap: order.length > 120 ? 0 : 0.15, margin: { t: 28, l: 48 },
        shapes: [{ ...line, xref: "x domain", x0: 0, x1: 1, yref: "y", y0: TAG, y1: TAG },
          { ...line, xref: "x2", x0: TAG, x1: TAG, yref: "y2 domain", y0: 0, y1: 1 }],
        annotations: [{ xref: "x domain", x: 1, xanchor: "right", yref: "y", y: TAG, yanchor: "bottom",
          showarrow: false, text: "tag above 1", font: { size: 12, color: colours.muted } }],
        xaxis: { title: { text: "features, most telling first" }, showgrid: false,
          domain: narrow ? [0, 1] : [0, 0.56], ...ranks(order.length) },
        yaxis: { title: { text: "separability" }, rangemode: "tozero",
          domain: narrow ? [0.58, 1] : [0, 1] },
        xaxis2: { title: { text: "the most telling" }, anchor: "y2", rangemode: "tozero",
          domain: narrow ? [0, 1] : [0.75, 1], nticks: 5 },
        yaxis2: { anchor: "x2", domain: narrow ? [0, 0.42] : [0, 1], tickvals: top.map((_, i) => -i),
          ticktext: top.map((feature) => `feature ${feature}`),
          tickfont: { size: 12, color: colours.ink } },
      } };
    },
  }).element;
}

function variance(data) {
  const { names } = data;
  const variances = modgap.sides.of(data.features, "variance");
  const sorted = (values) => values.map((value, feature) => ({ value, feature }))
    .filter((one) => one.value > 0).sort((a, b) => b.value - a.value);
  return modgap.figures.add({
    id: "variance", title: "Variance per feature",
    caption: "A steep start means that few features carry most of the variation; "
      + "each modality is sorted on its own.",
    describe: "Variance of the features of each modality, sorted, on a logarithmic scale.",
    draw: () => {
      const colours = modgap.theme.colours();
      const traces = modgap.charts.sides(names, variances.map((values) => ({ values })))
        .map((side) => {
          const points = sorted(side.values);
          return { type: "scatter", name: plain(side.name),
            mode: points.length < 4 ? "lines+markers" : "lines",
            x: points.map((_, i) => i + 1), y: points.map((one) => one.value),
            line: { color: side.colour, dash: side.dash, width: 2.2 }, hoverinfo: "text",
            hovertext: points.map((one) =>
              `${plain(side.name)}, feature ${one.feature}<br>variance ${format(one.value)}`) };
        });
      const values = traces.flatMap((trace) => trace.y);
      const decades = Math.log10(Math.max(...values) / Math.min(...values));
      return { traces, layout: { showlegend: true,
        xaxis: { title: { text: "features, most varied first" }, showgrid: false,
          ...ranks(variances[0].length) },
        yaxis: { title: { text: "variance" }, type: "log", minexponent: 3,
          dtick: decades > 1.5 ? 1 : null } } };
    },
  }).element;
}

function counted(edges, values) {
  const counts = new Array(edges.length - 1).fill(0);
  const width = edges[1] - edges[0];
  for (const value of values) {
    if (typeof value !== "number") continue;
    counts[Math.min(counts.length - 1, Math.max(0, Math.floor((value - edges[0]) / width)))] += 1;
  }
  return counts;
}

function distribution(data, { id, title, caption, axis, key }) {
  const { names } = data;
  const values = modgap.sides.of(data.features, key);
  const known = values.flat().filter((value) => typeof value === "number");
  if (!known.length) return null;
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const bins = Math.min(BINS, Math.max(4, Math.ceil(Math.sqrt(known.length)) * 2));
  const edges = Array.from({ length: bins + 1 }, (_, i) => low + (span * i) / bins);
  return modgap.figures.add({ id, title, caption, describe: `${title}, as densities of each modality.`,
    draw: () => modgap.charts.histogram({ edges, axis, series: modgap.charts.sides(names,
      values.map((one) => ({ counts: counted(edges, one) }))) }) }).element;
}

function figures(data) {
  return [data.features.separability ? separability(data) : null, variance(data),
    distribution(data, { id: "dominance", title: "Off-diagonal dominance",
      caption: "Far above 1, features vary together: the ellipsoid is tilted against the axes.",
      axis: "absolute covariances over own variance", key: "dominance" }),
    distribution(data, { id: "offset", title: "How far features are from the origin",
      caption: "A feature above 1 has a mean larger than its own spread.",
      axis: "absolute mean over standard deviation", key: "offset" }),
  ].filter(Boolean);
}

modgap.features = { figures };
