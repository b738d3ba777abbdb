// Results of a search, as people see them: one column for the rows as they are, one for the corrected.
//
//   modgap.hits.column({names, title, notes, hits, others, act, cut})   a column; `others` are the hits it is
//       compared with ("new here", "was 1"), act(hit) may give a button, `cut` {chance, least} a cut-off
//   modgap.hits.moved(hit, place, others)   "new here", "was 1" or null
//   modgap.hits.expected(number, least)     what is shown of {value, show()} where the bank tells `least`
//   modgap.hits.query(names, hit, note)     the query of a search
//   modgap.hits.results(query, columns)     all of it below each other
//   modgap.hits.side(names, at)             the name of a modality with its mark
//     hit {side, row, label, picture: Node or null, score: Node, match: true, false or null,
//          wrong: number or null, expected: Node or null}; the last two are its expected wrong results

const { el } = modgap.dom;
const { format } = modgap.number;
const METRICS = { cosine: "cosine", inner_product: "inner product",
  euclidean: "minus the squared Euclidean distance" };

function side(names, at) {
  return el("span", { class: "side" }, modgap.sides.mark(at), names[at]);
}

function named(names, hit) {
  return el("p", { class: "item-name" }, side(names, hit.side), ` row ${format(hit.row)}`);
}

function moved(hit, place, others) {
  if (!others) return null;
  const before = others.findIndex((one) => one.side === hit.side && one.row === hit.row);
  return before < 0 ? "new here" : before === place ? null : `was ${before + 1}`;
}

// How many of the results are of each modality.
function shares(names, hits) {
  const counts = names.map((_, at) => hits.filter((hit) => hit.side === at).length);
  const bar = el("div", { class: "share", "aria-hidden": "true" }, counts.map((count, at) => {
    const part = el("span", { class: `share-${modgap.sides.key(at)}` });
    part.style.flexGrow = String(count);
    return count ? part : null;
  }));
  return el("div", { class: "share-line" },
    el("p", {}, names.map((_, at) => el("span", {}, side(names, at), ` ${counts[at]}`))), bar);
}

function row(names, hit, place, others, act) {
  const change = moved(hit, place, others);
  return el("li", { class: hit.match ? "hit is-match" : "hit" },
    el("span", { class: "hit-place", "aria-hidden": "true" }, place + 1),
    hit.picture,
    el("div", { class: "hit-body" }, named(names, hit),
      hit.label === null ? null : el("p", { class: "item-label" }, hit.label),
      el("p", { class: "hit-facts" }, hit.score,
        hit.expected ? el("span", { class: "expected" }, hit.expected, " expected wrong") : null,
        hit.match ? el("strong", { class: "match" }, "✓ match") : null,
        change ? el("span", { class: "moved" }, change) : null,
        el("span", { class: "below" }, "below the cut-off"))),
    act?.(hit) ?? null);
}

function scores(metric) {
  return `Score: ${METRICS[metric]}, larger is nearer.`;
}

function column({ names, title, notes, hits, others, act, cut }) {
  const rows = hits.map((hit, place) => row(names, hit, place, others, act));
  const cutoff = cut?.least ? modgap.cutoff.control(rows, { ...cut, wrong: hits.map((hit) => hit.wrong) }) : null;
  return el("div", { class: "results-column" }, el("h3", {}, title),
    notes.map((note) => el("p", { class: "note" }, note)), shares(names, hits), cutoff,
    modgap.terms.rove(el("ol", { class: "hits" }, rows)));
}

// Expected wrong results, "< 0.05" where the bank does not tell how few.
function expected(number, least) {
  if (number.value === null) return null;
  return number.value < least.value ? ["< ", least.show()] : number.show();
}

function query(names, hit, note) {
  return [hit.picture, el("div", {}, named(names, hit),
    hit.label === null ? null : el("p", { class: "item-label" }, hit.label), note)];
}

function results(asked, columns) {
  return [el("h3", { class: "visually-hidden" }, "Results"),
    el("div", { class: "asked" }, el("h4", {}, "The query"), el("div", { class: "item query" }, asked)),
    el("div", { class: "columns" }, columns)];
}

modgap.hits = { column, expected, moved, query, results, side, scores };
