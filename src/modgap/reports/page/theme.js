// Light and dark: the system's choice until the reader makes one.
//
//   modgap.theme.colour(name)        the colour of a CSS variable, e.g. "ink", as Plotly reads it
//   modgap.theme.colours()           {ink, muted, line, paper, surface, x, y, s2 …, match, other, accent, edge}
//   modgap.theme.onChange(listener)  called after every switch
//   modgap.theme.print(on)           light colours while the page is printed

const { el } = modgap.dom;
const NAMES = ["ink", "muted", "line", "paper", "surface", "x", "y", "s2", "s3", "s4", "s5",
  "match", "other", "accent", "edge"];
const KEY = "modgap-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
const root = document.documentElement;
let probe = null;
let beforePrint = null;

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // A file opened from a mail may have no storage.
  }
}

function store(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // The choice then lasts as long as the page is open.
  }
}

function dark() {
  if (root.dataset.theme) return root.dataset.theme === "dark";
  return system.matches;
}

function colour(name) {
  if (!probe) {
    probe = el("span", { hidden: true, "aria-hidden": "true" });
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function colours() {
  return Object.fromEntries(NAMES.map((name) => [name, colour(name)]));
}

function changed() {
  const button = document.getElementById("theme");
  if (button) {
    button.setAttribute("aria-pressed", String(dark()));
    button.querySelector("span").textContent = dark() ? "Light" : "Dark";
  }
  listeners.forEach((listener) => listener());
}

function choose(choice) {
  root.dataset.theme = choice;
  store(choice);
  changed();
}

// Figures are recoloured too: light lines on white paper cannot be read.
function print(on) {
  if (on === (beforePrint !== null)) return;
  if (on) {
    beforePrint = root.dataset.theme ?? "";
    root.dataset.theme = "light";
  } else {
    if (beforePrint) root.dataset.theme = beforePrint;
    else delete root.dataset.theme;
    beforePrint = null;
  }
  listeners.forEach((listener) => listener());
}

function start() {
  const choice = stored();
  if (choice === "light" || choice === "dark") root.dataset.theme = choice;
  const button = document.getElementById("theme");
  button?.addEventListener("click", () => choose(dark() ? "light" : "dark"));
  system.addEventListener("change", () => root.dataset.theme || changed());
  changed();
}

modgap.theme = { colour, colours, onChange: (f) => listeners.push(f), start, print };
