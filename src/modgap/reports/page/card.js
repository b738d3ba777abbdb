// The card of one drawn item and its pair, and the field that finds items by their words.
//
//   const card = modgap.card.make(data, {partners, choose, select})
//   select(items, what)                       select the drawn items that have the words
//   card.element, card.show(chosen, pinned)   chosen is {side, index} or null; side is its place

const { el } = modgap.dom;

function item(data, { side, index }) {
  return el("div", { class: "item" }, modgap.fields.item(data, side, index));
}

// The next drawn item after `from` that has the words.
function search(data, words, from) {
  const meant = modgap.finding.parse(data, words);
  if (!meant) return null;
  const all = modgap.fields.every(data);
  const start = from ? all.findIndex((one) => one.side === from.side && one.index === from.index) + 1 : 0;
  const turned = [...all.slice(start), ...all.slice(0, start)];
  return turned.find((one) => meant(one.side, one.index)) ?? null;
}

function make(data, { partners, choose, select }) {
  const place = el("div", { class: "card-body" });
  const words = el("input", { type: "search", id: "find", autocomplete: "off",
    placeholder: "a word, a row number, or column: value", "aria-describedby": "find-help" });
  let pinned = null;

  const empty = () => el("p", { class: "note hint" },
    `Point at an item in the picture to see it here. Click it to keep it, with its ${
      data.names.length > 2 ? "matches" : "pair"}.`);

  function show(chosen, keep) {
    if (keep) pinned = chosen;
    const one = chosen ?? pinned;
    if (!one) {
      place.replaceChildren(empty());
      return;
    }
    const pairs = partners(one);
    place.replaceChildren(item(data, one),
      ...(pairs.length ? [el("p", { class: "with" }, pairs.length > 1 && data.names.length > 2 ? "and its matches" : "and its pair")] : []),
      ...pairs.slice(0, 5).map((other) => item(data, other)));
  }

  const form = el("form", { class: "find", role: "search", on: { submit: (event) => {
    event.preventDefault();
    const found = search(data, words.value, pinned);
    if (found) choose({ side: found.side, index: found.index });
    told(found, "Found. The item is shown, with a ring in the picture.");
  } } },
  el("label", { for: "find" }, "Find items"), words,
  el("button", { type: "submit" }, "Next"),
  el("button", { type: "button", id: "find-all", on: { click: all } }, "Select all"),
  el("button", { type: "button", on: { click: () => choose(null) } }, "Clear"),
  el("output", { class: "note" }),
  el("p", { class: "note", id: "find-help" }, example()));

  function told(found, sentence) {
    if (!found || sentence) modgap.dom.say(found ? sentence : "No drawn item has these words.");
    form.querySelector("output").textContent = found || !words.value.trim() ? "" : "Nothing found.";
  }

  function all() {
    const meant = modgap.finding.parse(data, words.value);
    const found = meant ? modgap.fields.every(data).filter((one) => meant(one.side, one.index)) : [];
    if (found.length) select(found, `Found ${found.length}`);
    told(found.length);
  }

  function example() {
    const fields = modgap.fields.all(data);
    const named = fields.find((field) => field.kind !== "number");
    const scale = fields.find((field) => field.kind === "number");
    const one = named ? `${named.name}: ${modgap.fields.text(named.values[0])}` : `modality: ${data.names[0]}`;
    const two = scale ? `${scale.name}: >${Number(scale.range[0].toPrecision(2))}` : "row: 0..99";
    return `For instance “${one}”, “${two}”, or both with a semicolon between.`;
  }

  show(null, true);
  return { element: el("div", { class: "card", id: "card" }, form, place), show };
}

modgap.card = { make };
