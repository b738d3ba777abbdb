// The selected rows: which they are, a list of them, and their files.
//
//   const selection = modgap.selection.make(data, {partners, changed})
//   selection.element                 the list with its buttons
//   selection.change(items, how)      "replace", "add" or "remove"; items are [{side, index}]
//   selection.toggle(item), selection.clear()
//   selection.has(item), selection.size(), selection.of(side)   of(side) is a Set of indices
//   selection.sentence()              how many there are

const { el } = modgap.dom;
const AT_ONCE = 50;
const HINT = "Draw a box or a lasso around points, choose “Points” and click them, or find them by words and "
  + "select all that match. With the keyboard: go to the picture, walk with the arrow keys, add or remove "
  + "with the space bar, clear with Escape.";

function make(data, { partners, changed }) {
  const sides = modgap.sides.of(data.picture);
  const chosen = sides.map(() => new Set());
  const drawn = sides.reduce((sum, own) => sum + own.rows.length, 0);
  const count = el("p", { class: "selection-count" });
  const list = el("ol", { class: "selected" });
  const pages = el("div", { class: "pages" });
  let first = 0;

  const size = () => chosen.reduce((sum, own) => sum + own.size, 0);
  const has = ({ side, index }) => chosen[side].has(index);
  const items = () => chosen.flatMap((own, side) => [...own]
    .sort((a, b) => sides[side].rows[a] - sides[side].rows[b]).map((index) => ({ side, index })));

  function sentence() {
    const each = chosen.map((own, side) => [own.size, data.names[side]]).filter(([n]) => n)
      .map(([n, name]) => `${n.toLocaleString("en-GB")} ${name}`);
    const all = size();
    if (!all) return "No rows are selected.";
    return `${all.toLocaleString("en-GB")} of the ${drawn.toLocaleString("en-GB")} drawn rows `
      + `${all === 1 ? "is" : "are"} selected: ${modgap.sides.list(each)}.`;
  }

  function change(some, how) {
    if (how === "replace") chosen.forEach((own) => own.clear());
    some.forEach(({ side, index }) => (how === "remove" ? chosen[side].delete(index) : chosen[side].add(index)));
    first = 0;
    update();
  }

  function toggle(one) {
    change([one], has(one) ? "remove" : "add");
  }

  function matches() {
    const before = size();
    change(items().flatMap((one) => partners(one)), "add");
    const added = size() - before;
    modgap.dom.say(`${added ? `${added} matching rows added` : "No other row matches"}. ${sentence()}`);
  }

  function said(text) {
    modgap.dom.say(`${text} ${sentence()}`);
  }

  async function copied() {
    await modgap.dom.copy(modgap.saving.numbers(data, items()));
    modgap.dom.say("The row numbers are copied.");
  }

  const save = (name, write, type) => modgap.dom.save(name, write(data, items()), type);
  const button = (id, label, click) => el("button", { type: "button", id, on: { click } }, label);
  const buttons = [
    data.picture.lines?.length ? button("add-matches", "Add matches", matches) : null,
    button("save-csv", "Save as CSV", () => save("selection.csv", modgap.saving.csv, "text/csv;charset=utf-8")),
    button("save-json", "Save as JSON", () => save("selection.json", modgap.saving.json, "application/json")),
    button("copy-rows", "Copy row numbers", copied),
    button("clear-selection", "Clear", () => {
      clear();
      said("Cleared.");
      count.focus();
    }),
  ].filter(Boolean);

  function clear() {
    change([], "replace");
  }

  function entry(one) {
    const { side, index } = one;
    const own = sides[side];
    const name = `${data.names[side]} row ${own.rows[index]}`;
    const id = own.ids?.[index];
    const remove = el("button", { type: "button", class: "save remove", "aria-label": `Remove ${name}`,
      on: { click: () => removed(one, name) } }, "Remove");
    return el("li", { class: "item", "data-side": side, "data-row": own.rows[index] },
      modgap.fields.item(data, side, index, id ? el("span", { class: "item-id" }, id) : null), remove);
  }

  // The next entry keeps the place of the keyboard.
  function removed(one, name) {
    const at = [...list.querySelectorAll(".remove")].indexOf(document.activeElement);
    const page = first;
    change([one], "remove");
    turn(page);
    said(`${name} is removed.`);
    const left = list.querySelectorAll(".remove");
    (left[Math.min(at, left.length - 1)] ?? count).focus();
  }

  function turn(to) {
    first = Math.max(0, Math.min(to, AT_ONCE * Math.floor((size() - 1) / AT_ONCE)));
    const all = items();
    list.replaceChildren(...all.slice(first, first + AT_ONCE).map(entry));
    list.start = first + 1;
    modgap.terms.rove(list);
    const last = Math.min(first + AT_ONCE, all.length);
    const go = (id, label, by, there) => {
      const made = button(id, label, () => {
        turn(first + by);
        const again = document.getElementById(id);
        (again.disabled ? pages.querySelector("button:not(:disabled)") ?? count : again).focus();
        modgap.dom.say(pages.querySelector("span").textContent);
      });
      made.disabled = !there;
      return made;
    };
    pages.hidden = all.length <= AT_ONCE;
    pages.replaceChildren(go("page-back", "Back", -AT_ONCE, first > 0),
      el("span", {}, `${first + 1} to ${last} of ${all.length}`),
      go("page-on", "Next", AT_ONCE, last < all.length));
  }

  function update() {
    const empty = size() === 0;
    count.textContent = sentence();
    hint.hidden = !empty;
    actions.hidden = empty;
    turn(0);
    changed();
  }

  const actions = el("div", { class: "controls", hidden: true }, buttons);
  const hint = el("p", { class: "note hint", id: "selection-hint" }, HINT);
  count.tabIndex = -1;
  const element = el("div", { class: "selection", id: "selection", role: "region", "aria-label": "Selected rows" },
    el("h3", {}, "Selected rows"), count, hint, actions, list, pages);
  count.textContent = sentence();
  pages.hidden = true;
  return { element, change, toggle, clear, has, size, sentence, of: (side) => chosen[side] };
}

modgap.selection = { make };
