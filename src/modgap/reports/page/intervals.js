// Dots with whiskers: one row per correction, one metric, against a reference.
//
//   modgap.charts.intervals({rows, reference, axis, width})   {traces, layout}
//     rows       [{label, value, low, high, marked, open}]; marked is a diamond, open a ring
//     reference  {label, value, low, high}, a dashed line and its band
//   modgap.charts.intervalsHeight(count, width)               pixels that fit them

const { plain } = modgap.dom;
const { format } = modgap.number;
const NARROW = 620;

function said(row) {
  const span = row.low === null || row.low === undefined ? ""
    : `<br>95 % interval ${format(row.low)} to ${format(row.high)}`;
  return `${plain(row.label)}<br>${format(row.value)}${span}`;
}

function known(rows) {
  return rows.filter((row) => row.value !== null && row.value !== undefined);
}

function intervalsHeight(count, width) {
  return count * (width < NARROW ? 44 : 32) + 110;
}

function dots(name, rows, place, marker, colour) {
  return { type: "scatter", mode: "markers", name, showlegend: false,
    x: rows.map((row) => row.value), y: rows.map(place), hoverinfo: "text",
    hovertext: rows.map(said), marker: { size: 10, color: colour, ...marker },
    error_x: { type: "data", symmetric: false, color: colour, thickness: 1.8, width: 0,
      array: rows.map((row) => Math.max(0, (row.high ?? row.value) - row.value)),
      arrayminus: rows.map((row) => Math.max(0, row.value - (row.low ?? row.value))) } };
}

function intervals({ rows, reference, axis, width = 900 }) {
  const colours = modgap.theme.colours();
  const narrow = width < NARROW;
  const place = (row) => rows.length - 1 - rows.indexOf(row);
  const shown = known(rows);
  const kinds = [
    [shown.filter((row) => !row.marked && !row.open), { symbol: "circle" }, colours.x],
    [shown.filter((row) => !row.marked && row.open), { symbol: "circle-open", line: { width: 2 } },
      colours.muted],
    [shown.filter((row) => row.marked), { symbol: "diamond", size: 14 }, colours.y],
  ];
  const name = (row) => (row.marked ? `<b>${plain(row.label, 80, 80)}</b>` : plain(row.label, 80, 80));
  const shapes = [];
  const notes = [];
  if (reference && reference.value !== null && reference.value !== undefined) {
    const edge = { xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below" };
    shapes.push({ type: "rect", ...edge, x0: reference.low ?? reference.value,
      x1: reference.high ?? reference.value, line: { width: 0 },
      fillcolor: modgap.charts.translucent(colours.muted, 0.18) });
    shapes.push({ type: "line", ...edge, x0: reference.value, x1: reference.value,
      line: { color: colours.muted, width: 1.5, dash: "dash" } });
    notes.push({ xref: "x", yref: "paper", x: reference.value, y: 1, yanchor: "bottom",
      xanchor: "auto", showarrow: false, text: plain(reference.label), font: { color: colours.muted } });
  }
  if (narrow) {
    rows.forEach((row) => notes.push({ xref: "paper", x: 0, xanchor: "left", yref: "y", yshift: 14,
      y: place(row), showarrow: false, text: name(row), font: { size: 12, color: colours.ink } }));
  }
  const traces = kinds.filter(([some]) => some.length)
    .map(([some, marker, colour]) => dots("", some, place, marker, colour));
  return { traces, layout: {
    shapes, annotations: notes, showlegend: false,
    margin: { l: narrow ? 8 : 40, r: 16, t: 30, b: 52 },
    xaxis: { title: { text: plain(axis) }, tickformat: "~g" },
    yaxis: { range: [-0.6, rows.length - (narrow ? 0.2 : 0.4)], showgrid: true,
      tickvals: rows.map(place), ticktext: rows.map(name), showticklabels: !narrow,
      tickfont: { color: colours.ink, size: 13 } },
  } };
}

Object.assign((modgap.charts ??= {}), { intervals, intervalsHeight });
