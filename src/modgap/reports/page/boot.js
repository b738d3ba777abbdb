// Start: take the document from the page, or ask the server for it, and draw it from the top.
//
//   modgap.boot.render(data)   draw a document; resolves once the picture is there
(function (modgap) {
  "use strict";

  const { el } = modgap.dom;
  const PAUSE = 700;

  const pause = (time) => new Promise((done) => setTimeout(done, time));

  function status(sentence, extra) {
    const place = document.getElementById("loading");
    place.hidden = !sentence;
    place.replaceChildren(...(sentence ? [el("p", {}, sentence), extra].filter(Boolean) : []));
  }

  function progress(work) {
    const known = work?.total > 0;
    return el("progress", { "aria-label": "Progress of the report",
      max: known ? work.total : null, value: known ? work.done : null });
  }

  async function body(answer) {
    try {
      return await answer.json();
    } catch {
      return null;
    }
  }

  // 202 says that the document is still being made, and how far that is.
  async function ask() {
    for (;;) {
      const answer = await fetch("api/report", { headers: { accept: "application/json" } });
      const said = await body(answer);
      if (answer.ok && answer.status !== 202 && said) return said;
      if (!answer.ok || !said) {
        throw new Error(typeof said?.detail === "string" ? said.detail
          : `the server answered with status ${answer.status}`);
      }
      status(`The report is being made${said.step ? `: ${said.step}` : ""}.`, progress(said));
      await pause(PAUSE);
    }
  }

  async function read() {
    const inline = document.getElementById("modgap-data");
    if (inline) return JSON.parse(inline.textContent);
    status("Reading the report.", progress(null));
    return ask();
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

  async function start() {
    let data = null;
    if (modgap.live && !document.getElementById("modgap-data")) {
      Promise.resolve(plotly()).then(() => modgap.live.start());
    }
    try {
      data = await read();
    } catch (error) {
      status(`The report could not be read: ${error.message.replace(/\.$/, "")}.`,
        el("button", { type: "button", on: { click: start } }, "Try again"));
      return;
    }
    status(null);
    await render(data);
    if (data.live) modgap.live?.arrived(data);
  }

  modgap.theme.start();
  modgap.terms.listen();
  printing();
  modgap.boot = { render };
  start();
})((globalThis.modgap ??= {}));
