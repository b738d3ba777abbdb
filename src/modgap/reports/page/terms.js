// What words and numbers mean: one tooltip for the whole page, on hover, focus and tap.
//
//   modgap.terms.use(data)               take the terms (and explanations) of a document
//   modgap.terms.attach(element, key)    let an element explain itself; returns the element
//   modgap.terms.label(key)              the label of a term, or its key made readable
//   modgap.terms.named(key, text)        <span> of a label that explains itself
//   modgap.terms.rove(container)         one tab stop for all terms inside; arrow keys move

const { el } = modgap.dom;
const SHOW_AFTER = 120;
const HIDE_AFTER = 180;
const EDGE = 8;

let terms = {};
let explanations = {};
let tip = null;
let shownFor = null;
let timer = 0;

function use(data) {
  terms = data.terms ?? {};
  explanations = data.diagnosis?.explanations ?? {};
}

function readable(key) {
  const words = key.replace(/_/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function find(key) {
  if (terms[key]) return terms[key];
  if (!explanations[key]) return null;
  return { label: readable(key), definition: explanations[key], source: null };
}

function label(key) {
  return find(key)?.label ?? readable(key);
}

function attach(element, key) {
  element.dataset.term = key ?? "";
  if (!element.matches("a, button, input, select, [tabindex]")) element.tabIndex = 0;
  return element;
}

function named(key, text) {
  if (!find(key)) return el("span", {}, text ?? label(key));
  return attach(el("span", { class: "term" }, text ?? label(key)), key);
}

function write(target) {
  const term = find(target.dataset.term);
  const value = target.dataset.value;
  const parts = [];
  if (term) {
    parts.push(el("strong", {}, term.label), el("span", {}, term.definition));
    if (term.source) parts.push(el("span", { class: "source" }, term.source));
  }
  if (value) parts.push(el("span", { class: "exact" }, `In full: ${value.replace("-", "−")}`));
  if (target.classList.contains("num") && !value) {
    parts.push(el("span", { class: "exact" }, "The data do not say."));
  }
  tip.replaceChildren(...parts);
  return parts.length > 0;
}

function place(target) {
  const at = target.getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const wide = document.documentElement.clientWidth;
  const left = Math.min(Math.max(at.left + at.width / 2 - box.width / 2, EDGE),
    Math.max(EDGE, wide - box.width - EDGE));
  const above = at.top - box.height - EDGE;
  const below = Math.min(at.bottom + EDGE, window.innerHeight - box.height - EDGE);
  tip.style.left = `${left}px`;
  tip.style.top = `${above >= EDGE ? above : Math.max(EDGE, below)}px`;
}

function show(target) {
  clearTimeout(timer);
  if (shownFor === target) return;
  hide();
  tip.hidden = false;
  if (!write(target)) {
    tip.hidden = true;
    return;
  }
  shownFor = target;
  target.setAttribute("aria-describedby", tip.id);
  place(target);
}

function hide() {
  clearTimeout(timer);
  shownFor?.removeAttribute("aria-describedby");
  shownFor = null;
  if (tip) tip.hidden = true;
}

function later(action, delay) {
  clearTimeout(timer);
  timer = setTimeout(action, delay);
}

function termAt(event) {
  return event.target instanceof Element ? event.target.closest("[data-term]") : null;
}

function listen() {
  tip = el("div", { id: "tooltip", role: "tooltip", class: "tooltip", hidden: true });
  document.body.append(tip);
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const target = termAt(event);
    if (target) later(() => show(target), SHOW_AFTER);
    else if (tip.contains(event.target)) clearTimeout(timer);
    else if (shownFor && shownFor !== document.activeElement) later(hide, HIDE_AFTER);
    else if (!shownFor) clearTimeout(timer);
  });
  document.addEventListener("focusin", (event) => {
    const target = termAt(event);
    if (target) show(target);
    else hide();
  });
  document.addEventListener("focusout", () => later(hide, HIDE_AFTER));
  document.addEventListener("click", (event) => {
    const target = termAt(event);
    if (target) show(target);
    else if (!tip.contains(event.target)) hide();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  window.addEventListener("scroll", () => shownFor && place(shownFor), { passive: true, capture: true });
  window.addEventListener("resize", hide);
}

const ARROWS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

// The next term in reading order, or in the same column where the container is a table.
function neighbour(container, from, key) {
  const all = [...container.querySelectorAll("[data-term]")]
    .filter((term) => term.getClientRects().length);
  const cell = from.closest("td, th");
  if (cell && (key === "ArrowDown" || key === "ArrowUp")) {
    let row = cell.parentElement;
    const rows = [...container.querySelectorAll("tr")];
    for (let at = rows.indexOf(row) + ARROWS[key]; rows[at]; at += ARROWS[key]) {
      row = rows[at];
      const found = row.cells[cell.cellIndex]?.querySelector("[data-term]");
      if (found) return found;
    }
    return null;
  }
  return all[all.indexOf(from) + ARROWS[key]] ?? null;
}

function rove(container) {
  const all = container.querySelectorAll("[data-term]");
  all.forEach((term, index) => (term.tabIndex = index === 0 ? 0 : -1));
  if (container.dataset.roving) return container;
  container.dataset.roving = "true";
  container.addEventListener("keydown", (event) => {
    const from = termAt(event);
    if (!from || !(event.key in ARROWS)) return;
    const to = neighbour(container, from, event.key);
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
  container.addEventListener("focusin", (event) => {
    const here = termAt(event);
    if (!here) return;
    for (const term of container.querySelectorAll("[data-term]")) {
      term.tabIndex = term === here ? 0 : -1;
    }
  });
  return container;
}

modgap.terms = { use, attach, label, named, rove, listen, find };
