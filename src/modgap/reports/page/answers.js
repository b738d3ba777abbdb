// Stored searches: one on the first screen, and all of them to look through, raw beside corrected.
//
//   modgap.answers.example(data)   a typical search, its first results before and after; or null
//   modgap.answers.render(data)    the section that finds stored queries by their words; a page on
//                                  live data searches itself

const { el, image } = modgap.dom;
const { format } = modgap.number;
const LEAST = ["answers", "least"];
const BRIEF = 6; // results on the first screen; a narrow one shows three of them

function item(data, number) {
  const one = data.answers.items[number];
  return { side: one.modality, row: one.row, label: one.label, thumbnail: one.thumbnail };
}

function hits(data, query, key) {
  return data.answers.queries[query][key]?.map((hit, place) => ({ ...item(data, hit.item),
    match: hit.match, wrong: hit.expected_wrong, key: ["answers", "queries", query, key, place] })) ?? null;
}

function drawn(data, found) {
  return found.map((hit) => ({ ...hit, picture: image(hit.thumbnail, ""),
    score: modgap.number.show(data, [...hit.key, "score"], { term: "score", digits: 3 }),
    expected: modgap.hits.expected(wrong(data, [...hit.key, "expected_wrong"]), wrong(data, LEAST)) }));
}

function wrong(data, path) {
  return { value: modgap.number.at(data, path), show: () => modgap.number.show(data, path, { term: "expected_wrong" }) };
}

// Whether the right result is there, and where: never told by colour alone.
function where(data, query, key, shown) {
  const path = ["answers", "queries", query, `${key}_place`];
  const place = modgap.number.at(data, path);
  if (place === null) return null;
  const near = place <= shown;
  return el("p", { class: near ? "where near" : "where" }, near ? "✓ " : "✗ ", "match in place ",
    modgap.number.show(data, path, { term: "place" }));
}

function text(data, hit) {
  return hit.label ?? `${data.names[hit.side]} ${format(hit.row)}`;
}

function brief(data, hit, place, others) {
  const change = modgap.hits.moved(hit, place, others);
  return el("li", { class: hit.match ? "seen is-match" : "seen" },
    el("span", { class: "seen-place", "aria-hidden": "true" }, place + 1),
    modgap.sides.mark(hit.side), el("span", { class: "visually-hidden" }, `${data.names[hit.side]}: `),
    image(hit.thumbnail, ""),
    el("span", { class: hit.label === null ? "seen-label number" : "seen-label", title: text(data, hit) },
      text(data, hit)),
    change ? el("span", { class: "seen-tag moved" }, change) : null,
    hit.match ? el("strong", { class: "seen-tag match" }, "✓", el("span", {}, " match")) : null);
}

function side(data, query, key, title, others) {
  const found = hits(data, query, key);
  if (!found) return null;
  return el("div", { class: `seen-side ${key}` },
    el("div", { class: "seen-head" }, el("h3", {}, title), where(data, query, key, BRIEF)),
    el("ol", {}, found.slice(0, BRIEF).map((hit, place) => brief(data, hit, place, others))));
}

function example(data) {
  const { answers } = data;
  if (!answers) return null;
  const query = answers.typical;
  const all = format(answers.queries.length);
  const asked = item(data, answers.queries[query].item);
  return el("section", { class: "example", "aria-label": "One search, before and after" },
    el("div", { class: "example-query" },
      el("p", { class: "example-about" },
        el("span", {}, `A typical ${data.names[asked.side]} query`,
          el("span", { class: "example-why" }, `: ${answers.typical_about} ${all} random ones`)),
        el("a", { href: "#search" }, modgap.live ? "Search live" : `See all ${all}`)),
      el("p", { class: "example-text" }, modgap.sides.mark(asked.side), image(asked.thumbnail, ""),
        el("span", { title: text(data, asked) }, text(data, asked)))),
    el("div", { class: "example-sides" },
      side(data, query, "raw", "As it is"),
      side(data, query, "corrected", "With the fix", hits(data, query, "raw"))));
}

function notes(data, query, key, metric, demands) {
  const place = modgap.number.at(data, ["answers", "queries", query, `${key}_place`]);
  return [`${modgap.hits.scores(metric)}${place === null ? "" : ` The match is in place ${format(place)}.`}`, demands];
}

function columns(data, query) {
  const { answers, names } = data;
  const raw = hits(data, query, "raw");
  const corrected = hits(data, query, "corrected");
  const found = [modgap.hits.column({ names, title: "As it is", hits: drawn(data, raw),
    notes: notes(data, query, "raw", answers.metric, "Documents and queries are left as they are.") })];
  if (corrected) {
    found.push(modgap.hits.column({ names, title: `Corrected: ${answers.method}`, others: raw,
      hits: drawn(data, corrected), cut: { chance: null, least: answers.least },
      notes: notes(data, query, "corrected", answers.corrected_metric, answers.demands) }));
  }
  return found;
}

function results(data, query) {
  const asked = item(data, data.answers.queries[query].item);
  const typical = query === data.answers.typical ? `A typical one: ${data.answers.typical_about} these `
    + `${format(data.answers.queries.length)}.` : null;
  return modgap.hits.results(modgap.hits.query(data.names, { ...asked, picture: image(asked.thumbnail, "") },
    typical ? el("p", { class: "note" }, typical) : null), columns(data, query));
}

// Every word must be in the query's label, its modality or its row number.
function holds(data, asked, typed) {
  const own = `${data.names[asked.side]} row ${asked.row} ${asked.label ?? ""}`.toLowerCase();
  return typed.toLowerCase().split(/\s+/).every((word) => own.includes(word));
}

function finder(data, choose) {
  const asked = data.answers.queries.map((query) => item(data, query.item));
  const field = el("input", { type: "search", id: "find-query", autocomplete: "off",
    placeholder: "words, or a row number" });
  const said = el("p", { class: "note", role: "status" });
  const buttons = asked.map((one, query) => el("button", { type: "button", class: "stored-query",
    "data-query": query, "aria-pressed": "false", on: { click: () => choose(query) } },
  modgap.sides.mark(one.side), image(one.thumbnail, ""), el("span", {}, text(data, one))));
  const list = el("ul", { class: "stored-list" }, buttons.map((button) => el("li", {}, button)));
  const shown = () => buttons.filter((button) => !button.parentElement.hidden);

  // One tab stop for the whole list: the chosen query, or the first where that is not listed.
  function reach() {
    const listed = shown();
    const stop = listed.find((button) => button.getAttribute("aria-pressed") === "true") ?? listed[0];
    buttons.forEach((button) => (button.tabIndex = button === stop ? 0 : -1));
  }

  function filter() {
    const typed = field.value.trim();
    buttons.forEach((button, query) => {
      button.parentElement.hidden = typed !== "" && !holds(data, asked[query], typed);
    });
    reach();
    const count = shown().length;
    said.textContent = count ? `${format(count)} of ${format(buttons.length)} stored queries.`
      : "No stored query has these words.";
  }

  // From the field down into the list, and up and down in it.
  function arrows(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const order = [field, ...shown()];
    const next = order[order.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  field.addEventListener("input", filter);
  filter();
  const form = el("form", { class: "stored-find", role: "search", on: {
    keydown: arrows,
    submit: (event) => {
      event.preventDefault();
      const [first] = shown();
      if (first) choose(buttons.indexOf(first));
    } } },
  el("label", { for: "find-query" }, "Find a stored query"), field, said, list);

  // Marked and in sight, without a move of the page.
  function mark(query) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === query)));
    reach();
    const chosen = buttons[query];
    if (chosen !== document.activeElement) list.scrollTop = chosen.offsetTop - list.clientHeight / 2;
  }

  return { form, mark };
}

function render(data) {
  const place = document.getElementById("search");
  if (modgap.live) return;
  place.hidden = !data.answers;
  if (!data.answers) return;
  const shown = el("div", { class: "results" });
  const find = finder(data, choose);

  function choose(query) {
    shown.replaceChildren(...results(data, query));
    shown.dataset.query = String(query);
    find.mark(query);
    modgap.dom.say(`Results for ${text(data, item(data, data.answers.queries[query].item))}.`);
  }

  place.replaceChildren(el("h2", {}, `Search one index of ${modgap.sides.list(data.names)}`),
    el("p", { class: "lead" }, data.answers.about), el("div", { class: "stored" }, find.form, shown));
  choose(data.answers.typical);
}

modgap.answers = { example, render };
