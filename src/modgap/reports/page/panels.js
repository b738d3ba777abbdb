// Small multiples: one curve per panel, each on a scale of its own, the least value marked.
//
//   modgap.charts.panels({panels, axis, width, present, lowest})   {traces, layout}
//     panels   [{title, x, y}]; present {at, name} is an upright line; lowest names the mark
//   modgap.charts.panelsHeight(count, width)                       pixels that fit them
//   modgap.charts.least(values)                                    where the least one is, or -1

const { plain } = modgap.dom;
const { format } = modgap.number;
const HIGH = 250;
const AROUND = 80;

function columnsFor(count, width) {
  return width >= 980 ? Math.min(count, 4) : width >= 520 ? Math.min(count, 2) : 1;
}

function panelsHeight(count, width) {
  return Math.ceil(count / columnsFor(count, width)) * HIGH + AROUND;
}

function least(values) {
  return values.reduce((best, value, i) =>
    (typeof value === "number" && (best < 0 || value < values[best]) ? i : best), -1);
}

// Where each panel lies, as shares of the drawing; room for tick labels is left between them.
function domains(count, width) {
  const columns = columnsFor(count, width);
  const lines = Math.ceil(count / columns);
  const beside = columns > 1 ? 60 / width : 0;
  const below = lines > 1 ? 74 / (lines * HIGH) : 0;
  const wide = (1 - beside * (columns - 1)) / columns;
  const high = (1 - below * (lines - 1)) / lines;
  return Array.from({ length: count }, (_, i) => {
    const left = (i % columns) * (wide + beside);
    const top = 1 - Math.floor(i / columns) * (high + below);
    return { x: [left, left + wide], y: [Math.max(0, top - high), top], last: i + columns >= count };
  });
}

function curve(panel, axes, axis, colours) {
  return { type: "scatter", mode: "lines", x: panel.x, y: panel.y, showlegend: false, ...axes,
    line: { color: colours.x, width: 2.2 }, hoverinfo: "text",
    hovertext: panel.y.map((y, k) =>
      `${plain(panel.title)}: ${format(y)}<br>${plain(axis)}: ${format(panel.x[k])}`) };
}

function mark(panel, axes, axis, name, legend, colours) {
  const found = least(panel.y);
  const some = found < 0 ? [] : [found];
  return { type: "scatter", mode: "markers", x: some.map((at) => panel.x[at]),
    y: some.map((at) => panel.y[at]), ...axes, name: plain(name), showlegend: legend,
    legendgroup: "least", hoverinfo: "text",
    marker: { symbol: "diamond", size: 12, color: colours.y },
    hovertext: some.map((at) =>
      `${plain(name)}: ${format(panel.y[at])}<br>${plain(axis)}: ${format(panel.x[at])}`) };
}

function panels({ panels: all, axis, width, present, lowest }) {
  const colours = modgap.theme.colours();
  const places = domains(all.length, width - 64);
  const line = { color: colours.muted, width: 1.5, dash: "dash" };
  const here = typeof present?.at === "number" ? present : null;
  const traces = [];
  const layout = { shapes: [], annotations: [], showlegend: true, margin: { l: 48, r: 16, t: 64, b: 56 },
    legend: { orientation: "h", x: 0, xanchor: "left", yref: "container", y: 1, yanchor: "top",
      font: { size: 13, color: colours.ink }, bgcolor: "rgba(0,0,0,0)" } };
  all.forEach((panel, i) => {
    const n = i ? String(i + 1) : "";
    const axes = { xaxis: `x${n}`, yaxis: `y${n}` };
    const place = places[i];
    layout[`xaxis${n}`] = { domain: place.x, anchor: axes.yaxis, tickformat: "~g", nticks: 6,
      title: { text: place.last ? plain(axis) : "" } };
    layout[`yaxis${n}`] = { domain: place.y, anchor: axes.xaxis, tickformat: "~g", nticks: 5,
      automargin: false };
    layout.annotations.push({ xref: "paper", yref: "paper", x: place.x[0], y: place.y[1], xanchor: "left",
      yanchor: "bottom", yshift: 3, showarrow: false, text: `<b>${plain(panel.title)}</b>`,
      font: { size: 13, color: colours.ink } });
    traces.push(curve(panel, axes, axis, colours), mark(panel, axes, axis, lowest, i === 0, colours));
    if (here) {
      layout.shapes.push({ type: "line", xref: axes.xaxis, yref: `${axes.yaxis} domain`, x0: here.at,
        x1: here.at, y0: 0, y1: 1, line });
    }
  });
  if (here) {
    traces.push({ type: "scatter", mode: "lines", x: [null], y: [null], name: plain(here.name), line });
  }
  return { traces, layout };
}

Object.assign((modgap.charts ??= {}), { panels, panelsHeight, least });
