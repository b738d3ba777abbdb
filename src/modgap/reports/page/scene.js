// The drawing of the picture: a cloud for each modality, the lines of their pairs, the chosen item; 2-D
// and 3-D.
//
//   const scene = modgap.scene.make(plot, picture, names)
//   scene.draw(state)      everything anew: another projection, theme, size, 2-D or 3-D
//   scene.move(state)      only the points, at once on the screen and soon after in Plotly
//   scene.paint(state)     only how the points look: their colours, and which of them are selected
//   scene.drag(state)      only what dragging does
//   scene.points(state)    where the points are: per modality, an array per coordinate
//   scene.figure(state)    the drawing with a legend of its own, for a file
//   modgap.scene.webgl()   whether 3-D can be drawn
//   state is {projection, path, t, lines, three, chosen: {side, index} | null, tool, look}; side is its place
//   look is {fills(side), words(side), samples(type), selected(side)}, see colours.js, selection.js

const { plain } = modgap.dom;
const REST = 200; // milliseconds without a move
const precise = (value) => value.toPrecision(6);

function webgl() {
  const canvas = document.createElement("canvas");
  try {
    return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
  } catch {
    return false;
  }
}

function hover(picture, names) {
  return modgap.sides.of(picture).map((own, s) => own.rows.map((row, i) => {
    const label = own.labels?.[i];
    return `<b>${plain(names[s])} ${row}</b>${label ? `<br>${plain(label)}` : ""}`;
  }));
}

// In 3-D, pairs as one line with a break after each.
function joined(lines, placed, k) {
  return Float64Array.from(lines.flatMap((line) => [...line.map((i, s) => placed[s][k][i]), NaN]));
}

// In 2-D, pairs as one path below the points; one SVG line per pair is slow.
function path(lines, points, text) {
  const parts = [];
  for (const line of lines) {
    const ends = line.map((i, s) => [points[s][0][i], points[s][1][i]]);
    if (!ends.flat().every(Number.isFinite)) continue;
    parts.push(`M${ends.map(([x, y]) => `${text(x, 0)},${text(y, 1)}`).join("L")}`);
  }
  return parts.join("") || `M${text(0, 0)},${text(0, 1)}`;
}

function chosenPairs(picture, chosen) {
  if (!chosen || !picture.lines) return [];
  return picture.lines.filter((line) => line[chosen.side] === chosen.index);
}

function partners(picture, chosen) {
  return chosenPairs(picture, chosen).flatMap((line) => line.map((index, side) => ({ side, index }))
    .filter((one) => one.side !== chosen.side));
}

// The rings around the chosen item and its pairs; in 3-D also the line between them.
function ring(picture, chosen, points, k, three) {
  if (!chosen) return [];
  const start = points[chosen.side][k][chosen.index];
  const others = partners(picture, chosen).map((one) => points[one.side][k][one.index]);
  return three ? others.flatMap((other) => [start, other, null]).concat([start]) : [start, ...others];
}

const OPEN = new Set(["circle", "diamond", "square"]); // symbols that 3-D has hollow, too
const DRAGS = { box: "select", lasso: "lasso" };

// How the points of a modality look. Of selected rows the others step back; hollow ones have no value.
function marker(state, side, size) {
  const { colour, symbol } = modgap.sides.look(side);
  const fills = state.look?.fills(side);
  const selected = state.look?.selected(side);
  const { ink, paper, edge } = modgap.theme.colours();
  // A translucent fill is painted much faster than a translucent element; in 3-D depth counts.
  const shade = remembered((own, strength) => (state.three ? mixed(own, paper, strength)
    : modgap.charts.translucent(own, strength)));
  const [usual, behind] = state.three ? [1, 0.25] : [fills ? 0.85 : 0.72, 0.16];
  const strength = (i) => (!selected ? usual : selected.has(i) ? 1 : behind);
  const unknown = (i) => (selected?.has(i) ? ink : edge);
  const each = (value) => (fills ?? Array.from({ length: modgap.sides.of(state.projection)[side][0].length }))
    .map((fill, i) => value(fill, i));
  const plainly = !fills && !selected;
  return {
    color: plainly ? shade(colour, strength())
      : each((fill, i) => shade(fills ? fill ?? unknown(i) : colour, strength(i))),
    symbol: fills && OPEN.has(symbol) ? fills.map((fill) => (fill === null ? `${symbol}-open` : symbol)) : symbol,
    size: selected ? each((_, i) => (selected.has(i) ? (state.three ? 2.2 : 1.3) : 1) * size) : size,
    "line.width": selected && !state.three ? each((_, i) => (selected.has(i) ? 1 : 0)) : 0,
    "line.color": ink,
  };
}

function remembered(make) {
  const known = new Map();
  return (colour, strength) => {
    const key = `${colour} ${strength}`;
    if (!known.has(key)) known.set(key, make(colour, strength));
    return known.get(key);
  };
}

function mixed(colour, paper, share) {
  const [a, b] = [colour, paper].map((one) => one.match(/[\d.]+/g).slice(0, 3).map(Number));
  return `rgb(${a.map((value, i) => Math.round(share * value + (1 - share) * b[i])).join(",")})`;
}

function make(plot, picture, names) {
  const texts = hover(picture, names);
  const own = modgap.sides.of(picture);
  const drawnTraces = Array.from({ length: names.length + 1 }, (_, n) => n); // the clouds and the ring
  let drawnAs = null;
  let settled = 0;

  function placed(state) {
    return own.map(({ squares }, side) =>
      modgap.moving.place(state.projection, side, squares, state.path, state.t));
  }

  // Per axis, the values of each trace: the clouds, the ring, and in 3-D the pairs.
  function coordinates(state, points) {
    return Array.from({ length: state.three ? 3 : 2 }, (_, k) => [...points.map((one) => one[k]),
      ring(picture, state.chosen, points, k, state.three),
      ...(state.three ? [joined(pairs(state), points, k)] : [])]);
  }

  // Of selected rows, only theirs.
  function pairs(state) {
    const all = state.lines ? picture.lines ?? [] : [];
    const selected = names.map((_, side) => state.look?.selected(side));
    return selected[0] ? all.filter((line) => line.some((index, side) => selected[side].has(index))) : all;
  }

  // Plotly's scattergl compiles code at run time, which the page's policy forbids. In 2-D the
  // points are SVG, and moved by hand; scatter3d needs no such code.
  function kind(state) {
    return state.three ? "scatter3d" : "scatter";
  }

  function paths(state, points, text) {
    return [path(pairs(state), points, text),
      path(chosenPairs(picture, state.chosen), points, text)];
  }

  function traces(state, points) {
    const colours = modgap.theme.colours();
    const type = kind(state);
    const values = coordinates(state, points);
    const at = (n) => Object.fromEntries(values.map((axis, k) => ["xyz"[k], axis[n]]));
    const cloud = (name, s) => {
      const { "line.width": width, "line.color": color, ...looks } = marker(state, s, size(state));
      return { type, mode: "markers", name: plain(name), ...at(s), hovertext: hovertext(state, s), hoverinfo: "text",
        marker: { ...looks, opacity: 1, line: { width, color } } };
    };
    const drawn = [...names.map(cloud),
      { type, mode: state.three ? "lines+markers" : "markers", ...at(names.length), hoverinfo: "skip",
        showlegend: false, connectgaps: false, line: { color: colours.ink, width: 2 },
        marker: { size: state.three ? 7 : 15, symbol: "circle-open", color: colours.ink,
          line: { width: 2, color: colours.ink } } }];
    if (state.three) {
      drawn.push({ type, mode: "lines", ...at(names.length + 1), hoverinfo: "skip", showlegend: false,
        line: { color: colours.line, width: 1 } });
    }
    return drawn;
  }

  function size(state) {
    const count = own.reduce((sum, { rows }) => sum + rows.length, 0);
    return state.three ? 3 : Math.max(4.5, Math.min(10, 280 / Math.sqrt(count + 1)));
  }

  function hovertext(state, side) {
    const words = state.look?.words(side);
    return words ? texts[side].map((text, i) => `${text}<br>${plain(words[i])}`) : texts[side];
  }

  function axisName(state, k) {
    const share = state.projection.share?.[k];
    const name = `${state.projection.label} ${k + 1}`;
    if (typeof share !== "number") return plain(name);
    return plain(`${name} (${(100 * share).toFixed(1)} % of the spread)`);
  }

  function layout(state, points) {
    const colours = modgap.theme.colours();
    const ranges = modgap.moving.ranges(picture, state.projection, state.path);
    const fine = window.matchMedia("(pointer: fine)").matches;
    const common = { showlegend: legend(state), hovermode: "closest", uirevision: null,
      width: modgap.figures.widthOf(plot), height: Math.floor(plot.clientHeight) };
    const key = { orientation: "h", x: 0, xanchor: "left", y: 1.01, yanchor: "bottom",
      itemsizing: "constant", font: { size: 14, color: colours.ink }, bgcolor: "rgba(0,0,0,0)" };
    if (state.three) {
      const axis = (k) => ({ range: ranges[k], gridcolor: colours.line, zeroline: false,
        showbackground: false, color: colours.muted,
        title: { text: `${plain(state.projection.label)} ${k + 1}` } });
      return { ...modgap.figures.layout({ ...common, legend: key, margin: { l: 0, r: 0, t: above(state), b: 0 } }),
        dragmode: "turntable",
        scene: { xaxis: axis(0), yaxis: axis(1), zaxis: axis(2), aspectmode: "data" } };
    }
    const axis = (k, own) => ({ type: "linear", range: ranges[k], title: { text: axisName(state, k) },
      zeroline: true, zerolinecolor: colours.line, fixedrange: !fine, nticks: 7, tickformat: "~g",
      ...own });
    return modgap.figures.layout({ ...common, legend: key,
      shapes: paths(state, points, precise).map((one, i) => ({ type: "path", path: one, layer: "below",
        line: i ? { width: 2, color: colours.ink }
          : { width: 1, color: modgap.charts.translucent(colours.muted, 0.22) } })),
      ...drags(state, fine),
      margin: { l: 52, r: 8, t: above(state), b: 48 },
      xaxis: axis(0, { constrain: "range" }),
      yaxis: axis(1, { scaleanchor: "x", scaleratio: 1, constrain: "range" }) });
  }

  // What Plotly itself would mark as selected is taken away: rows stay selected in another drawing.
  function drags(state, fine) {
    const line = { color: modgap.theme.colours().ink, width: 1.5, dash: "dot" };
    return { dragmode: DRAGS[state.tool] ?? (fine && state.tool !== "points" ? "zoom" : false), selections: [],
      newselection: { line } };
  }

  function drag(state) {
    if (state.three) return Promise.resolve();
    return Plotly.relayout(plot, drags(state, window.matchMedia("(pointer: fine)").matches));
  }

  async function paint(state) {
    if (!drawnAs) return;
    const looks = names.map((_, side) => marker(state, side, size(state)));
    const update = Object.fromEntries(Object.keys(looks[0])
      .map((key) => [`marker.${key}`, looks.map((one) => one[key])]));
    const points = placed(state);
    update.hovertext = names.map((_, side) => hovertext(state, side));
    const frame = { showlegend: legend(state), "margin.t": above(state) };
    if (!state.three) {
      update.selectedpoints = names.map(() => null);
      Object.assign(frame, { selections: [], "shapes[0].path": paths(state, points, precise)[0] });
    }
    await Plotly.update(plot, update, frame, names.map((_, side) => side));
    if (state.three) await settle(state, coordinates(state, points), points);
  }

  // Whether Plotly draws the legend: its marks look like the first points, so only where all look alike.
  function legend(state) {
    return !state.look?.fills(0) && !state.look?.selected(0);
  }

  // Pixels above the drawing: room for its legend.
  function above(state) {
    return legend(state) ? 34 : 12;
  }

  function figure(state) {
    if (legend(state)) return plot;
    const samples = state.look.samples(kind(state));
    return { data: [...plot.data.map((trace) => ({ ...trace, showlegend: false })), ...samples],
      layout: { ...plot.layout, showlegend: true, margin: { ...plot.layout.margin, t: 74 } } };
  }

  async function draw(state) {
    clearTimeout(settled);
    if (drawnAs && drawnAs !== kind(state)) Plotly.purge(plot);
    drawnAs = kind(state);
    const points = placed(state);
    await Plotly.react(plot, traces(state, points), layout(state, points), modgap.figures.config);
  }

  function settle(state, values, points) {
    const update = Object.fromEntries(values.map((axis, k) => ["xyz"[k], axis]));
    if (state.three) return Plotly.restyle(plot, update, [...drawnTraces, names.length + 1]);
    const [all, chosen] = paths(state, points, precise);
    return Plotly.update(plot, update, { "shapes[0].path": all, "shapes[1].path": chosen }, drawnTraces);
  }

  // Puts the drawn points where they belong; false where the drawing is not as expected.
  function shift(state, values, points) {
    const { xaxis, yaxis } = plot._fullLayout;
    const nodes = plot._fullData.map((trace) => plot.querySelectorAll(`.trace${trace.uid} .point`));
    const lines = [0, 1].map((i) => plot.querySelector(`.shapelayer path[data-index="${i}"]`));
    const whole = (n) => values[0][n].every(Number.isFinite) && nodes[n].length === values[0][n].length;
    if (!lines[0] || !lines[1] || !drawnTraces.every(whole)) return false;
    nodes.forEach((some, n) => some.forEach((node, i) => node.setAttribute("transform",
      `translate(${xaxis.l2p(values[0][n][i]).toFixed(2)},${yaxis.l2p(values[1][n][i]).toFixed(2)})`)));
    const axes = [xaxis, yaxis];
    const text = (value, k) => (axes[k]._offset + axes[k].l2p(value)).toFixed(1);
    paths(state, points, text).forEach((one, i) => lines[i].setAttribute("d", one));
    return true;
  }

  // Plotly takes long to draw thousands of points anew, so they are shifted on the screen at
  // once, and it learns of it when they rest: hover and downloads then follow.
  function move(state) {
    const points = placed(state);
    const values = coordinates(state, points);
    clearTimeout(settled);
    if (state.three || !shift(state, values, points)) return settle(state, values, points);
    settled = setTimeout(() => settle(state, values, points), REST);
    return Promise.resolve();
  }

  return { draw, move, paint, drag, figure, points: placed, partners: (chosen) => partners(picture, chosen) };
}

modgap.scene = { make, webgl };
