// The first screen: what happens to the user's search, one search before and after, three metrics.
//
//   modgap.first.render(data)

const { el } = modgap.dom;
const LONG = 170; // letters; names of modalities may be long

function metrics(data) {
  const names = data.headline?.metrics ?? [];
  if (!names.length) return null;
  const method = data.diagnosis.recommended;
  return el("section", { class: "three", "aria-label": "Three metrics" },
    el("p", { class: "three-title" }, method ? ["Metrics, as it is → with ", el("code", {}, method)]
      : "Metrics of the rows as they are"),
    el("ul", { class: "tiles" }, names.map((name) => modgap.verdict.tile(data, name))));
}

function render(data) {
  const { headline } = data;
  const [first, then, ...others] = headline?.sentences ?? [];
  if (!first) return;
  const reason = data.diagnosis ? null : data.missing?.verdict;
  const long = first.length + (then ?? "").length > LONG;
  const example = modgap.answers.example(data);
  const three = metrics(data);
  document.getElementById("first").replaceChildren(...[
    el("h1", { class: long ? "headline long" : "headline" }, el("span", {}, first), then ? el("span", { class: "then" }, ` ${then}`) : null),
    ...others.map((sentence) => el("p", { class: "also" }, sentence)),
    headline.evidence ? el("p", { class: "evidence" }, headline.evidence) : null,
    reason ? el("p", { class: "evidence" }, reason) : null,
    example || three ? el("div", { class: "first-grid" }, example, three) : null,
  ].filter(Boolean));
}

modgap.first = { render };
