// A cut-off on results by their expected wrong ones: what is below it is grey. It stays for the next search.
//
//   modgap.cutoff.control(items, {wrong, chance, least})   a slider above a list; `wrong` has a number for
//       each of its items. `chance`, where it is known, is the share of queries without any match whose best
//       result looks as good: too large, and nothing is kept.

const { el } = modgap.dom;
const { format } = modgap.number;
const STEPS = 10; // of the slider for each factor of ten
const MOST = 100;
let chosen = 0; // the step: 1 expected wrong result

function control(items, { wrong, chance, least }) {
  const first = Math.ceil(STEPS * Math.log10(least));
  const last = STEPS * Math.log10(MOST);
  const range = el("input", { type: "range", id: "cutoff", step: 1, min: first, max: last,
    value: Math.max(first, chosen) });
  const shown = el("output", { for: "cutoff", class: "number" });
  const said = el("p", { class: "note", role: "status" });

  function cut() {
    const most = 10 ** (Number(range.value) / STEPS);
    const found = chance === null || chance <= 1 - Math.exp(-most);
    const kept = wrong.map((one, place) => found && (one <= most || (place === 0 && chance !== null)));
    items.forEach((item, place) => item.classList.toggle("is-below", !kept[place]));
    const count = kept.filter(Boolean).length;
    const words = format(Number(most.toPrecision(2)), { exact: true });
    shown.textContent = words;
    range.setAttribute("aria-valuetext", `${words} expected wrong`);
    said.textContent = count ? `${format(count)} of ${format(items.length)} results are kept.`
      : "Nothing found: queries without a match have results as good.";
  }

  range.addEventListener("input", () => {
    chosen = Number(range.value);
    cut();
  });
  cut();
  return el("div", { class: "cutoff" },
    el("label", { for: "cutoff" }, "Keep results with at most ", shown, " expected wrong"), range, said);
}

modgap.cutoff = { control };
