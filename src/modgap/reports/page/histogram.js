// Overlaid histograms, drawn as densities so that sides of different size compare.
//
//   modgap.charts.histogram({edges, series, axis, lines})     {traces, layout}
//     series  [{name, counts, colour, dash}]; lines [{at, name, colour, dash}] are upright
//   modgap.charts.sides(names, values)                        the modalities as such series
//   modgap.charts.translucent(colour, opacity)                a CSS rgb() colour made see-through

const { plain } = modgap.dom;
const { format } = modgap.number;

function translucent(colour, opacity) {
  const parts = colour.match(/[\d.]+/g).slice(0, 3);
  return `rgba(${parts.join(",")},${opacity})`;
}

function densities(edges, counts) {
  const total = counts.reduce((sum, count) => sum + (count ?? 0), 0);
  return counts.map((count, i) => (total ? (count ?? 0) / (total * (edges[i + 1] - edges[i] || 1)) : 0));
}

// The outline of a histogram as a step line, from zero back to zero.
function outline(edges, heights) {
  return { x: [edges[0], ...edges], y: [0, ...heights, 0] };
}

function marks(lines, colours) {
  return lines.filter((line) => line.at !== null && line.at !== undefined).map((line) => ({
    type: "line", xref: "x", yref: "paper", x0: line.at, x1: line.at, y0: 0, y1: 1,
    line: { color: line.colour ?? colours.ink, width: 1.8, dash: line.dash ?? "dot" } }));
}

function histogram({ edges, series, axis, lines = [] }) {
  const colours = modgap.theme.colours();
  const traces = series.filter((one) => one.counts).map((one) => {
    const heights = densities(edges, one.counts);
    return { type: "scatter", mode: "lines", name: plain(one.name), ...outline(edges, heights),
      line: { shape: "hv", color: one.colour, width: 2, dash: one.dash ?? "solid" },
      fill: "tozeroy", fillcolor: translucent(one.colour, 0.14), hoverinfo: "text",
      hovertext: ["", ...heights.map((height, i) => `${plain(one.name)}<br>${format(edges[i])} to `
        + `${format(edges[i + 1])}: density ${format(height)}, ${format(one.counts[i])} in all`), ""] };
  });
  lines.filter((line) => line.at !== null && line.at !== undefined).forEach((line) => traces.push({
    type: "scatter", mode: "lines", x: [null], y: [null], name: plain(line.name),
    line: { color: line.colour ?? colours.ink, width: 1.8, dash: line.dash ?? "dot" } }));
  return { traces, layout: { shapes: marks(lines, colours), hovermode: "closest",
    showlegend: true, xaxis: { title: { text: plain(axis) }, showgrid: false, tickformat: "~g" },
    yaxis: { title: { text: "density" }, rangemode: "tozero" } } };
}

// The modalities as series: colours, and dashes for those who tell no colours apart.
function sides(names, values) {
  return names.map((name, i) => ({ name, ...modgap.sides.look(i), ...values[i] }));
}

Object.assign((modgap.charts ??= {}), { histogram, sides, translucent });
