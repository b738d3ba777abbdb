// What a correction demands of who uses it: columns, documents, queries, metric, next commands.
//
//   modgap.demands.facts(one)            a list of its demands, in words
//   modgap.demands.more(title, ...all)   the same and the next commands, to be opened; `all` are the
//                                        corrections of one name, one for each kind of query

const { el } = modgap.dom;

const capital = (words) => `${words.charAt(0).toUpperCase()}${words.slice(1)}`;

function facts(one) {
  return el("dl", { class: "demands" }, Object.entries(one.demands ?? {}).map(([name, words]) =>
    el("div", {}, el("dt", {}, capital(name)), el("dd", {}, words))));
}

function more(title, ...all) {
  return el("details", { class: "demanded" }, el("summary", {}, title), all.map((one) => [
    all.length > 1 ? el("p", { class: "demanded-for" }, `For ${modgap.sides.list(one.queries)} queries`) : null,
    facts(one),
    el("pre", { tabindex: 0, role: "region",
      "aria-label": `Next commands for ${modgap.sides.list(one.queries)} queries: ${title}` },
    el("code", {}, one.commands.join("\n")))]));
}

modgap.demands = { facts, more };
