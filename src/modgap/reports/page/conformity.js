// Conformity: how typical rows are of their modality, and which are the most and least so.
//
//   modgap.conformity.render(data)

const { el, add, image } = modgap.dom;

function item(data, one, path) {
  const { show } = modgap.number;
  return el("li", { class: "item" }, image(one.thumbnail, one.caption ?? `row ${one.row}`),
    el("div", {},
      one.caption ? el("p", { class: "item-label" }, one.caption) : null,
      el("p", { class: "item-name" },
        el("span", {}, "row ", show(data, [...path, "row"], { term: "row" })), " ",
        el("span", {}, "conformity ",
          show(data, [...path, "value"], { term: "conformity", digits: 3 })))));
}

// Items without words stand side by side; with words, below each other.
function items(data, title, key, i) {
  const all = modgap.sides.of(data.conformity, key)[i] ?? [];
  const path = ["conformity", ...modgap.sides.path(data.conformity, i, key)];
  if (!all.length) return null;
  const words = all.some((one) => one.caption);
  return el("div", { class: words ? "items" : "items gallery" }, el("h4", {}, title),
    modgap.terms.rove(el("ul", {}, all.map((one, index) => item(data, one, [...path, index])))));
}

function render(data) {
  const place = document.getElementById("conformity");
  const { conformity: own, names } = data;
  place.append(el("h2", {}, "Conformity"));
  add(place, modgap.head.missing(data, "conformity",
    own ? null : "There is no conformity to show."));
  if (!own) return;
  place.append(el("p", { class: "lead" }, "The mean cosine of a row to all others of its modality: "
    + "high for common things, low for unusual ones."));
  const figure = modgap.figures.add({
    id: "conformity-figure", title: "How typical rows are",
    caption: "Where two curves are apart, the rows of one modality are more alike than those of the other.",
    describe: "Densities of the conformity of the rows of each modality.",
    draw: () => modgap.charts.histogram({ edges: own.edges, axis: "conformity",
      series: modgap.charts.sides(names, modgap.sides.of(own).map((counts) => ({ counts }))) }),
  }).element;
  const all = names.flatMap((name, i) => [items(data, `Most typical, ${name}`, "most", i),
    items(data, `Least typical, ${name}`, "least", i)]).filter(Boolean);
  const short = all.filter((one) => one.classList.contains("gallery"));
  const long = all.filter((one) => !one.classList.contains("gallery"));
  place.append(
    el("div", { class: short.length ? "conformity-grid" : null }, figure,
      el("div", { class: "typical" }, short)),
    el("div", { class: "typical-lists" }, long));
}

modgap.conformity = { render };
