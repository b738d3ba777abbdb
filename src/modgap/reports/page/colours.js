// The colours of the points: by modality, or by a column of the data; never without a legend in words.
//
//   const colours = modgap.colours.make(data, {changed, select})
//   colours.control      "Colour by", or null where there is nothing to choose
//   colours.legend       what the colours mean; its buttons select the rows of a value
//   colours.fills(side)  a colour for each row, null for rows without a value; or null: by modality
//   colours.words(side)  the value of each row for its hover text, or null
//   colours.samples(type)   Plotly traces that only stand in a legend, for downloads
//   colours.explain(needed)     show the legend also where points are coloured by modality

const { el, plain } = modgap.dom;
const N_VALUES = 10; // as many colours
const SCALE = ["n0", "n1", "n2", "n3", "n4"];
const parts = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);

function between(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const mixed = stops[low].map((value, i) => Math.round(value + (at - low) * (stops[low + 1][i] - value)));
  return `rgb(${mixed.join(", ")})`;
}

// A function from what the document has of a row (a place among the values, or a number) to a colour.
function painter(field) {
  if (field.kind === "number") {
    const stops = SCALE.map((name) => parts(modgap.theme.colour(name)));
    const [low, high] = field.range;
    return (own) => between(stops, high > low ? (own - low) / (high - low) : 0.5);
  }
  const colours = Array.from({ length: N_VALUES }, (_, i) => modgap.theme.colour(`v${i}`));
  const other = modgap.theme.colour("rest");
  return (own) => colours[own] ?? other;
}

function make(data, { changed, select }) {
  const fields = modgap.fields.all(data).map((field, place) => ({ field, place }))
    .filter(({ field }) => field.kind !== "text");
  const legend = el("div", { class: "legend", id: "legend", hidden: true });
  let shown = null;
  let needed = false;

  const control = fields.length ? el("div", { class: "field" }, el("label", { for: "colour" }, "Colour by"),
    el("select", { id: "colour", on: { change: (event) => choose(fields[event.target.selectedIndex - 1]) } },
      el("option", {}, "modality"), fields.map(({ field }) => el("option", {}, field.name)))) : null;

  const own = (side) => modgap.sides.of(shown.field)[side] ?? [];
  const rows = (side) => modgap.sides.of(data.picture)[side].rows;

  function fills(side) {
    if (!shown) return null;
    const paint = painter(shown.field);
    const values = own(side);
    return rows(side).map((_, i) => (values[i] === null || values[i] === undefined ? null : paint(values[i])));
  }

  function words(side) {
    if (!shown) return null;
    return rows(side).map((_, i) =>
      `${shown.field.name}: ${modgap.fields.text(modgap.fields.value(shown.field, side, i))}`);
  }

  function pick(name, test) {
    const found = modgap.fields.every(data).filter(({ side, index }) => test(own(side)[index] ?? null));
    select(found, `${shown.field.name}: ${name}`);
  }

  function entry(mark, name, count, test) {
    return el("li", {}, el("button", { type: "button", class: "legend-value",
      title: `Select the rows with ${shown.field.name}: ${name}`, on: { click: () => pick(name, test) } },
    mark, el("span", {}, name)), count);
  }

  function swatch(name, hollow) {
    const made = el("i", { class: hollow ? "swatch hollow" : "swatch", "aria-hidden": "true" });
    made.style.setProperty("--own", `var(--${name})`);
    return made;
  }

  function count(...keys) {
    return modgap.number.show(data, ["picture", "fields", shown.place, ...keys], { term: "drawn_with" });
  }

  function categories() {
    const { field } = shown;
    const named = field.values.slice(0, N_VALUES);
    const more = field.values.length - named.length;
    const rest = more === 1 ? "1 other value" : `${more} other values`;
    return [...named.map((name, i) =>
      entry(swatch(`v${i}`), modgap.fields.text(name), count("counts", i), (code) => code === i)),
    more ? entry(swatch("rest"), rest, count("n_other"), (code) => code >= N_VALUES) : null];
  }

  function scale() {
    const { field } = shown;
    const end = (i, key, sign) => [field[key] === field.range[i] ? null : `${sign} `,
      modgap.number.show(data, ["picture", "fields", shown.place, "range", i], { term: "field_end", exact: true })];
    return el("li", { class: "scale" }, el("span", {}, end(0, "least", "≤")),
      el("i", { class: "gradient", "aria-hidden": "true" }), el("span", {}, end(1, "most", "≥")));
  }

  function write() {
    legend.hidden = !shown && !needed;
    const shapes = el("ul", { "aria-label": "Shapes by modality" }, data.names.map((name, side) =>
      el("li", {}, shape(side), name)));
    if (!shown) {
      legend.replaceChildren(shapes);
      return;
    }
    const { field } = shown;
    const values = el("ul", { "aria-label": `Colours by ${field.name}` },
      field.kind === "number" ? scale() : categories(),
      field.n_missing ? entry(swatch("none", true), "no value", count("n_missing"), (value) => value === null) : null);
    legend.replaceChildren(shapes, modgap.terms.rove(values));
  }

  function shape(side) {
    const mark = modgap.sides.mark(side);
    if (shown) mark.classList.add("plain-mark");
    return mark;
  }

  function choose(field) {
    shown = field ?? null;
    write();
    changed();
    modgap.dom.say(shown ? `Points are coloured by ${shown.field.name}.` : "Points are coloured by modality.");
  }

  function explain(on) {
    if (on === needed) return;
    needed = on;
    write();
  }

  function samples(type) {
    const ink = shown ? modgap.theme.colours().ink : null;
    const nowhere = { type, mode: "markers", x: [null], y: [null], ...(type === "scatter3d" ? { z: [null] } : {}),
      hoverinfo: "skip" };
    const one = (name, marker) => ({ ...nowhere, name: plain(name, 40), showlegend: true,
      marker: { size: 9, ...marker } });
    const shapes = data.names.map((name, side) => {
      const { colour, symbol } = modgap.sides.look(side);
      return one(name, { symbol, color: ink ?? colour });
    });
    if (!shown) return shapes;
    const { field } = shown;
    if (field.kind === "number") {
      const colorscale = SCALE.map((name, i) => [i / (SCALE.length - 1), modgap.theme.colour(name)]);
      const marker = { color: [field.range[0]], cmin: field.range[0], cmax: field.range[1], colorscale, showscale: true,
        colorbar: { title: { text: plain(field.name, 40) }, thickness: 12, len: 0.7, outlinewidth: 0 } };
      return [...shapes, { ...nowhere, showlegend: false, marker }];
    }
    const paint = painter(field);
    const square = (name, i) => one(name, { symbol: "square", color: paint(i) });
    const values = field.values.slice(0, N_VALUES).map((name, i) => square(modgap.fields.text(name), i));
    return [...shapes, ...values, ...(field.values.length > N_VALUES ? [square("other values", N_VALUES)] : [])];
  }

  return { control, legend, fills, words, samples, explain };
}

modgap.colours = { make };
