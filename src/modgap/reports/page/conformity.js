// Conformity: how typical rows are of their modality, and which are the most and least so.
//
//   modgap.conformity.render(data)
(function (modgap) {
  "use strict";

  const { el, add, image } = modgap.dom;

  function item(data, list, index) {
    const one = data.conformity[list][index];
    const { show } = modgap.number;
    return el("li", { class: "item" }, image(one.thumbnail, one.caption ?? `row ${one.row}`),
      el("div", {},
        one.caption ? el("p", { class: "item-label" }, one.caption) : null,
        el("p", { class: "item-name" },
          el("span", {}, "row ", show(data, ["conformity", list, index, "row"], { term: "row" })), " ",
          el("span", {}, "conformity ",
            show(data, ["conformity", list, index, "value"], { term: "conformity", digits: 3 })))));
  }

  // Items without words stand side by side; with words, below each other.
  function items(data, title, list) {
    const all = data.conformity[list] ?? [];
    if (!all.length) return null;
    const words = all.some((one) => one.caption);
    return el("div", { class: words ? "items" : "items gallery" }, el("h4", {}, title),
      modgap.terms.rove(el("ul", {}, all.map((_, index) => item(data, list, index)))));
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
      caption: "Where the two curves are apart, the rows of one modality are more alike than those of the other.",
      describe: "Densities of the conformity of the rows of each modality.",
      draw: () => modgap.charts.histogram({ edges: own.edges, axis: "conformity",
        series: modgap.charts.sides(names, [{ counts: own.x }, { counts: own.y }]) }),
    }).element;
    const lists = [["most_x", `Most typical, ${names[0]}`], ["least_x", `Least typical, ${names[0]}`],
      ["most_y", `Most typical, ${names[1]}`], ["least_y", `Least typical, ${names[1]}`]];
    const all = lists.map(([list, title]) => items(data, title, list)).filter(Boolean);
    const short = all.filter((one) => one.classList.contains("gallery"));
    const long = all.filter((one) => !one.classList.contains("gallery"));
    place.append(
      el("div", { class: short.length ? "conformity-grid" : null }, figure,
        el("div", { class: "typical" }, short)),
      el("div", { class: "typical-lists" }, long));
  }

  modgap.conformity = { render };
})((globalThis.modgap ??= {}));
