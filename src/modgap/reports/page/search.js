// Search: one query, asked of the rows as they are and of the corrected ones, side by side.
//
//   const search = modgap.live.search(info, state)
//   search.offer(id)   show the corrections there are, and search with this one
//   search.random()    ask with any row
//   search.used()      the correction searched with

const { el, say } = modgap.dom;
const { format } = modgap.number;
const { ask } = modgap.server;
const { field, options, counted, hitOf, labelOf } = modgap.live.shared;
const SHOWN = 8; // suggestions under the field
const TYPING = 200;

function numbers(text) {
  const inside = text.trim().replace(/^\[/, "").replace(/\]$/, "");
  return inside.split(/[\s,;]+/).filter(Boolean).map(Number);
}

function askWith(hit, next) {
  const title = `Search with ${hit.modality} row ${hit.row}`;
  return el("button", { type: "button", class: "save", title, "aria-label": title,
    on: { click: () => next(hit) } }, "Ask with this");
}

function column(info, title, metric, found, key, others, next, demands, cut) {
  const first = found.findIndex((hit) => hit.match);
  const known = found.some((hit) => hit.match !== null);
  const where = !known ? null : first < 0 ? `No match among the first ${found.length}.`
    : `The first match is in place ${first + 1}.`;
  return modgap.hits.column({ names: info.names, title,
    notes: [[modgap.hits.scores(metric), where].filter(Boolean).join(" "),
      demands ?? "Documents and queries are left as they are."],
    hits: found.map((hit, place) => ({ ...hitOf(info, hit), wrong: hit.expected_wrong,
      score: modgap.number.element(hit.score, `live.search.${key}.${place}.score`, { term: "score", digits: 3 }),
      expected: modgap.hits.expected(shown(hit.expected_wrong, `${key}.${place}.expected_wrong`),
        shown(cut?.least ?? null, "least")) })),
    cut,
    others: others?.map((hit) => hitOf(info, hit)),
    act: (hit) => askWith(hit, next) });
}

function shown(value, key) {
  return { value, show: () => modgap.number.element(value, `live.search.${key}`, { term: "expected_wrong" }) };
}

function makeSearch(info, state) {
  const modality = el("select", {});
  options(modality, info.names.map((name) => [name, name]), info.queries[0]);
  const text = el("input", { type: "search", autocomplete: "off", maxlength: 200,
    placeholder: "part of a caption, or a row number" });
  const found = el("ul", { class: "found" });
  const foundSaid = el("p", { class: "note", role: "status" });
  const vector = el("textarea", { rows: 3, spellcheck: "false",
    placeholder: `[0.12, -0.03, …] with ${info.dim} numbers` });
  const correction = el("select", {});
  const index = el("select", {});
  options(index, [...(info.paired ? [["one_side", `each item as ${info.names[0]} or ${info.names[1]}`]] : []),
    ["all", "every row"]]);
  const k = el("select", {});
  options(k, [5, 10, 20, 50, 100].map((n) => [String(n), String(n)]), "10");
  const problem = el("p", { class: "missing", role: "alert", hidden: true });
  const missing = el("p", { class: "missing" });
  const results = el("div", { class: "results" }, el("p", { class: "note" }, "Searching."));
  let query = null;
  let turn = 0;
  let typing = 0;

  function fail(error) {
    problem.hidden = !error;
    problem.textContent = error?.message ?? "";
  }

  // Why there are no corrected results; it changes when the report ends.
  function explain() {
    missing.textContent = state.corrections.length ? "Choose a correction above to see its results here."
      : info.why_no_fit ? `No correction can be fitted here. ${info.why_no_fit}`
        : `${state.none ?? ""} You can fit one in the workbench below.`;
  }

  function draw(answer) {
    const asked = answer.query ? modgap.hits.query(info.names, hitOf(info, answer.query))
      : el("p", {}, "The vector you gave, as ", modgap.hits.side(info.names, info.names.indexOf(query.modality)));
    const columns = [column(info, "As it is", answer.metric, answer.raw, "raw", null, next)];
    if (answer.corrected) {
      columns.push(column(info, `Corrected: ${state.nameOf(query.correction)}`, answer.corrected_metric,
        answer.corrected, "corrected", answer.raw, next, answer.corrected_demands,
        { chance: answer.chance, least: answer.least }));
    } else {
      columns.push(el("div", { class: "results-column" }, el("h3", {}, "Corrected"), missing));
    }
    results.replaceChildren(...modgap.hits.results(asked, columns));
    results.dataset.ready = "true";
  }

  async function search(asked) {
    query = { ...asked, k: Number(k.value), correction: correction.value || null,
      index: index.value };
    const mine = (turn += 1);
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await ask("search", query);
      if (mine !== turn) return;
      fail(null);
      draw(answer);
      const hit = answer.query && hitOf(info, answer.query);
      say(`${counted(answer.raw.length, "result", "results")} for ${!hit ? "the vector"
        : hit.label ?? `row ${format(hit.row)}`}.`);
    } catch (error) {
      if (mine === turn) fail(error);
    } finally {
      if (mine === turn) results.removeAttribute("aria-busy");
    }
  }

  const again = () => query && search({ modality: query.modality, row: query.row, vector: query.vector });

  function next(item) {
    modality.value = item.modality;
    text.value = "";
    suggest();
    search({ modality: item.modality, row: item.row });
    results.scrollIntoView({ block: "nearest" });
  }

  function suggestion(item) {
    const { picture, label, row } = hitOf(info, item);
    return el("li", {}, el("button", { type: "button", class: "suggestion", on: { click: () => next(item) } },
      picture, el("span", {}, label), el("span", { class: "note" }, `row ${format(row)}`)));
  }

  async function suggest() {
    const wanted = text.value.trim();
    const side = info.modalities[info.names.indexOf(modality.value)];
    if (!wanted) {
      found.replaceChildren();
      foundSaid.textContent = "";
      return;
    }
    try {
      const page = await ask(`items?${new URLSearchParams({ modality: side.name, contains: wanted, limit: SHOWN })}`);
      if (text.value.trim() !== wanted) return;
      const byRow = /^\d+$/.test(wanted) && Number(wanted) < side.rows
        ? [{ modality: side.name, row: Number(wanted), caption: null, id: null, thumbnail: null }] : [];
      found.replaceChildren(...[...byRow, ...page.items].slice(0, SHOWN).map(suggestion));
      const total = page.total + byRow.length;
      foundSaid.textContent = total ? `${counted(total, "row", "rows")} found${total > SHOWN ? `, the first ${SHOWN} listed` : ""}.`
        : "Nothing found.";
    } catch (error) {
      fail(error);
    }
  }

  async function random() {
    const side = info.modalities[info.names.indexOf(modality.value)];
    const offset = Math.floor(Math.random() * side.live_rows);
    try {
      const page = await ask(`items?${new URLSearchParams({ modality: side.name, offset, limit: 1 })}`);
      await search({ modality: side.name, row: page.items[0].row });
    } catch (error) {
      fail(error);
    }
  }

  function pasted() {
    const given = numbers(vector.value);
    if (given.length !== info.dim || given.some((one) => !Number.isFinite(one))) {
      fail(new Error(given.some((one) => !Number.isFinite(one)) ? "The vector must hold numbers only."
        : `The vector must have ${info.dim} numbers, got ${given.length}.`));
      return;
    }
    search({ modality: modality.value, vector: given });
  }

  text.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(suggest, TYPING);
  });
  modality.addEventListener("change", suggest);
  for (const control of [correction, index, k]) control.addEventListener("change", again);

  const form = el("form", { class: "live-form", role: "search", on: { submit: async (event) => {
    event.preventDefault();
    clearTimeout(typing);
    await suggest();
    found.querySelector("button")?.click();
  } } },
  field("ask-modality", "Ask with", modality),
  el("div", { class: "live-find" }, field("ask-text", "Find a row", text),
    el("button", { type: "submit" }, "Search"),
    el("button", { type: "button", id: "ask-random", on: { click: random } }, "Random")),
  field("ask-correction", "Correction", correction), field("ask-index", "Index of", index),
  field("ask-k", "Results", k),
  el("div", { class: "found-place" }, found, foundSaid),
  el("details", { class: "paste" }, el("summary", {}, "Paste a vector instead"),
    field("ask-vector", "Vector", vector, "A JSON list, or numbers with commas or spaces between them."),
    el("button", { type: "button", on: { click: pasted } }, "Search with the vector")));

  const sizes = info.modalities.map((side) => `${format(side.live_rows)} ${side.name} rows`).join(" and ");
  const [first, second] = info.names;
  const once = info.paired ? ` “Each item as ${first} or ${second}” holds half of the items as ${first} and the others `
    + `as ${second}, and the query’s match always as the other modality. The mixed metrics of the report search this index.` : "";
  document.getElementById("search").replaceChildren(
    el("h2", {}, "Search one index of both modalities"),
    el("p", { class: "lead" }, `The same query searches ${sizes} twice: as they are, and corrected. `
      + `A query row is left out of its own results.${once}`),
    ...info.sampling.map((sentence) => el("p", { class: "note" }, sentence)), form, problem, results);

  function offer(use) {
    const wanted = use ?? correction.value;
    options(correction, [["", "none"], ...state.corrections.map((one) => [one.id, labelOf(one)])], wanted);
    explain();
    if (correction.value !== (query?.correction ?? "")) again();
  }

  return { offer, random, used: () => correction.value };
}

modgap.live.search = makeSearch;
