// The head of the page: verdict in two words, title, what was read, and the navigation.
//
//   modgap.head.render(data)
//   modgap.head.navigation()    links to the sections that are shown now; call again on a change
//   modgap.head.missing(data, section, otherwise)   what a section cannot show and why, or null;
//                               `otherwise` is the sentence where the document has none

const { el, svg } = modgap.dom;
const { show } = modgap.number;
let watcher = null;

// Word, class and drawing of each verdict: the state is never told by colour alone.
const STATES = {
  "use": ["Use a correction", "good", "M7 12.5l3.5 3.5L17 9"],
  "leave it alone": ["Leave it alone", "calm", "M7 12h10"],
  "not enough pairs": ["Not enough pairs", "care", "M12 6.5v7M12 16.8v.4"],
  "no pairs": ["No pairs", "care", "M9 9l6 6M15 9l-6 6"],
};
const NONE = ["No verdict", "care", "M9.6 9.4a2.5 2.5 0 1 1 3.6 2.3c-.9.5-1.2 1-1.2 1.9M12 17v.3"];

function state(data) {
  const [word, kind, path] = STATES[data.verdict?.verdict] ?? NONE;
  return el("span", { class: `state ${kind}` },
    svg("svg", { viewBox: "0 0 24 24", class: "mark-state", "aria-hidden": "true" },
      svg("circle", { cx: 12, cy: 12, r: 10.5 }), svg("path", { d: path })), word);
}

function fact(name, ...value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, ...value));
}

// How many rows the queries of a modality have, where these are not its documents.
function own(data) {
  return (data.asking ?? []).map(({ name, source }, i) => el("span", { class: "from" },
    show(data, ["asking", i, "n"], { term: "rows" }), ` ${name} of their own`,
    source && source !== name ? `, ${source}` : ""));
}

function render(data) {
  const title = data.title || modgap.sides.list(data.source ?? []) || "Embeddings";
  document.title = `${title} · modgap`;
  const sides = (data.names ?? []).map((name, i) =>
    fact(el("span", { class: "side" }, modgap.sides.mark(i), name),
      show(data, ["n", i], { term: "rows" }), " rows",
      data.source?.[i] && data.source[i] !== name ? el("span", { class: "from" }, data.source[i]) : null));
  document.getElementById("title").replaceChildren(el("p", { class: "kicker" }, state(data),
    el("span", { class: "title", title }, title)));
  document.getElementById("facts").replaceChildren(
    el("dl", { class: "facts" }, sides,
      fact("Dimensions", show(data, ["dim"], { term: "dim" })),
      fact(data.names?.length > 2 ? "Matches" : "Pairs", data.pairing),
      data.queries?.length ? fact("Queries", modgap.sides.list(data.queries), own(data)) : null,
      data.model ? fact("Model", data.model) : null));
}

function current(links) {
  watcher?.disconnect();
  const seen = new Set();
  watcher = new IntersectionObserver((entries) => {
    entries.forEach((entry) => seen[entry.isIntersecting ? "add" : "delete"](entry.target));
    const first = [...document.querySelectorAll("main > section")].find((one) => seen.has(one));
    links.forEach((link) => {
      if (first && link.hash === `#${first.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }, { rootMargin: "-80px 0px -55% 0px" });
  document.querySelectorAll("main > section:not([hidden])").forEach((one) => watcher.observe(one));
}

function navigation() {
  const list = document.getElementById("sections");
  const button = document.getElementById("menu");
  const links = [...document.querySelectorAll("main > section[data-name]:not([hidden], :empty)")]
    .map((section) => el("a", { href: `#${section.id}` }, section.dataset.name));
  list.replaceChildren(...links.map((link) => el("li", {}, link)));
  current(links);
  const open = (yes) => {
    button.setAttribute("aria-expanded", String(yes));
    list.toggleAttribute("data-open", yes);
  };
  button.onclick = () => open(button.getAttribute("aria-expanded") !== "true");
  list.onclick = () => open(false);
  list.parentElement.onkeydown = (event) => {
    if (event.key !== "Escape" || button.getAttribute("aria-expanded") !== "true") return;
    open(false);
    button.focus();
  };
}

function missing(data, section, otherwise) {
  const sentence = data.missing?.[section] ?? otherwise;
  return sentence ? el("p", { class: "missing", "data-missing": section }, sentence) : null;
}

modgap.head = { render, navigation, missing };
