// Start: take the document from the page, or ask the server for it, and draw it from the top.

const { el } = modgap.dom;
const PAUSE = 700;
const send = (method) => modgap.server.ask("report", null, method);

// What is there already stays where it is: a button must not change under a finger.
function status(sentence, ...extra) {
  const place = document.getElementById("loading");
  place.hidden = !sentence;
  const [words, ...others] = place.children;
  if (sentence && words && extra.length && others.at(-1) === extra.at(-1)) {
    words.textContent = sentence;
    others[0].replaceWith(extra[0]);
  } else {
    const pressed = place.querySelector("button:disabled"); // the next one takes its place for the keyboard
    place.replaceChildren(...(sentence ? [el("p", {}, sentence), ...extra] : []));
    if (pressed) place.querySelector("button")?.focus();
  }
}

function progress(work) {
  const known = work?.total > 0;
  return el("progress", { "aria-label": "Progress of the report",
    max: known ? work.total : null, value: known ? work.done : null });
}

function cancelling() {
  return el("button", { type: "button", id: "report-cancel", on: { click: async (event) => {
    event.target.disabled = true;
    await send("DELETE").catch(() => null); // what became of it is asked for anyway
  } } }, "Cancel the report");
}

// The server says how far the document is until it has it.
async function read() {
  const inline = document.getElementById("modgap-data");
  if (inline) return JSON.parse(inline.textContent);
  status("Reading the report.", progress(null));
  const cancel = cancelling();
  for (;;) {
    const said = await send("GET");
    if (said.live) return said;
    status(said.detail, progress(said), cancel);
    await modgap.server.pause(PAUSE);
  }
}

// The verdict needs no Plotly, whose script is large and comes after this one.
function plotly() {
  if (globalThis.Plotly) return null;
  return new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
}

async function render(data) {
  modgap.terms.use(data);
  modgap.head.render(data);
  modgap.first.render(data);
  modgap.verdict.render(data);
  modgap.answers.render(data);
  await plotly();
  if (!globalThis.Plotly) {
    status("The drawing library did not load, so nothing is drawn. Load the page again.");
    return;
  }
  const picture = modgap.picture.render(data);
  modgap.corrections.render(data);
  modgap.fix.render(data);
  modgap.geometry.render(data);
  modgap.conformity.render(data);
  modgap.landscapes.render(data);
  modgap.measures.render(data);
  modgap.head.navigation();
  await picture;
  document.documentElement.dataset.ready = "true";
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function printing() {
  window.addEventListener("beforeprint", () => modgap.figures.print(true));
  window.addEventListener("afterprint", () => modgap.figures.print(false));
}

// A report that failed or was cancelled is made anew; one that did not come is asked for again.
function again(ended) {
  return el("button", { type: "button", on: { click: async (event) => {
    event.target.disabled = true;
    if (ended) await send("POST").catch(() => null);
    modgap.live?.refresh?.();
    await follow();
  } } }, ended ? "Make the report" : "Try again");
}

async function follow() {
  let data = null;
  try {
    data = await read();
  } catch (error) {
    status(error.message, again(error.ended));
    modgap.live?.refresh?.(); // what was said of the report may not hold any more
    return;
  }
  status(null);
  await render(data);
  if (data.live) modgap.live?.arrived(data);
}

async function start() {
  if (modgap.live && !document.getElementById("modgap-data")) {
    Promise.resolve(plotly()).then(() => modgap.live.start());
  }
  await follow();
}

modgap.theme.start();
modgap.terms.listen();
printing();
start();
