// Workbench: fit a correction with parameters of one's own, and see it evaluated beside the others.
//
//   const workbench = modgap.live.workbench(info, state)
//   workbench.draw()   the table and the chart of the fitted corrections

const { el } = modgap.dom;
const { format } = modgap.number;
const { ask, pause } = modgap.server;
const { field, options, counted, sentence, labelOf } = modgap.live.shared;
const POLLING = 350;

function input(parameter) {
  if (parameter.type === "choice") {
    const select = el("select", { "data-name": parameter.name });
    options(select, parameter.choices.map((one) => [one, one]), parameter.default);
    return select;
  }
  const range = parameter.maximum - parameter.minimum;
  return el("input", { type: "number", "data-name": parameter.name, value: parameter.default, required: true,
    min: parameter.minimum, max: parameter.maximum, step: "any", inputmode: "decimal",
    title: `From ${format(parameter.minimum)} to ${format(parameter.maximum)}${range > 1 ? "" : ", a share"}` });
}

function makeWorkbench(info, state) {
  const method = el("select", {});
  const about = el("p", { class: "note" });
  const parameters = el("div", { class: "live-parameters" });
  const run = el("button", { type: "submit", class: "primary" }, "Fit and evaluate");
  const cancel = el("button", { type: "button", hidden: true }, "Cancel");
  const bar = el("progress", { "aria-label": "Progress of the fit" });
  const step = el("p", { class: "note", role: "status", "aria-live": "polite" });
  const working = el("div", { class: "working", hidden: true }, bar, cancel);
  const problem = el("p", { class: "missing", role: "alert", hidden: true });
  const table = el("div", {});
  const demands = el("div", { class: "live-demands" });
  let chart = null;
  let job = null;
  let stopped = null; // the job as it was when cancelled

  const unit = info.paired ? ["group", "groups"] : ["row of each modality", "rows of each modality"];
  const names = () => Object.keys(state.corrections[0]?.raw.metrics ?? {});
  options(method, info.methods.map((one) => [one.name, one.available ? one.name : `${one.name} (needs pairs)`]),
    "Calibrate");
  for (const one of info.methods) {
    method.querySelector(`option[value="${CSS.escape(one.name)}"]`).disabled = !one.available;
  }

  function describe() {
    const one = info.methods.find((candidate) => candidate.name === method.value);
    about.textContent = one.summary;
    parameters.replaceChildren(...one.parameters.map((parameter) =>
      field(`parameter-${parameter.name}`, parameter.name, input(parameter))));
  }

  function given() {
    return Object.fromEntries([...parameters.querySelectorAll("[data-name]")].map((control) =>
      [control.dataset.name, control.type === "number" ? Number(control.value) : control.value]));
  }

  async function follow() {
    for (;;) {
      if (stopped) return stopped;
      const now = await ask(`jobs/${job}`).catch((error) => {
        if (stopped) return stopped; // it was forgotten while it was asked for
        throw error;
      });
      if (!["queued", "running"].includes(now.state)) return now;
      bar.max = now.total || 1;
      if (now.total) bar.value = now.done;
      else bar.removeAttribute("value");
      if (!stopped) step.textContent = now.state === "queued" ? "Waiting for its turn." : now.step ? sentence(now.step) : "";
      await pause(POLLING);
    }
  }

  function outcome(ended) {
    if (ended.state === "done") return `${ended.title} is fitted and evaluated.`;
    const at = ended.step ? ` while ${ended.step}` : " before it began";
    return `${ended.title} was cancelled${at}. Nothing of it was kept.`;
  }

  async function start() {
    problem.hidden = true;
    run.disabled = true;
    stopped = null;
    working.hidden = false;
    cancel.hidden = true;
    cancel.disabled = false;
    bar.removeAttribute("value");
    try {
      job = (await ask("corrections", { method: method.value, parameters: given() })).job;
      cancel.hidden = false;
      const ended = await follow();
      if (ended.state === "failed") throw new Error(ended.error);
      step.textContent = outcome(ended);
      if (ended.result) await state.refresh(ended.result.id);
    } catch (error) {
      step.textContent = "";
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      job = null;
      run.disabled = Boolean(info.why_no_fit);
      working.hidden = true;
    }
  }

  cancel.addEventListener("click", async () => {
    cancel.disabled = true;
    step.textContent = "Cancelling.";
    try {
      stopped = await ask(`jobs/${job}`, null, "DELETE"); // as it ended: it may have been done already
    } catch {
      cancel.disabled = false; // how it ended is followed anyway
    }
  });
  method.addEventListener("change", describe);
  describe();
  run.disabled = Boolean(info.why_no_fit);

  function actions(one) {
    const used = state.used() === one.id;
    return el("span", { class: "live-actions" },
      el("button", { type: "button", class: "save", "aria-pressed": String(used),
        "aria-label": `Use ${one.name} in search`, on: { click: () => state.use(one.id) } },
      used ? "Used in search" : "Use in search"),
      one.demands.map(({ queries }, i) => el("a", { download: "",
        href: `api/corrections/${encodeURIComponent(one.id)}/file`
          + (i ? `?${new URLSearchParams({ queries: queries[0] })}` : ""),
        "aria-label": `Download ${one.name}${i ? ` for ${queries.join(" and ")} queries` : ""}` },
      i ? `Download for ${queries.join(" and ")} queries` : "Download")));
  }

  function drawDemands() {
    const open = new Set([...demands.querySelectorAll("details[open] summary")].map((one) => one.textContent));
    demands.replaceChildren(...state.corrections.map((one) =>
      modgap.demands.more(`What ${one.name} demands, and what to run next`, ...one.demands)));
    for (const one of demands.querySelectorAll("details")) {
      one.open = open.has(one.querySelector("summary").textContent);
    }
  }

  function drawTable() {
    if (!state.corrections.length) {
      table.replaceChildren(el("p", { class: "note" }, info.why_no_fit
        ? `Nothing can be fitted here. ${info.why_no_fit}` : "Nothing has been fitted yet."));
      return;
    }
    const live = { live: { corrections: state.corrections } };
    const cells = (...path) => modgap.comparison.cells(live, ["live", "corrections", ...path], names());
    const rows = state.corrections.map((one, i) => ({ marked: one.recommended,
      cells: [modgap.comparison.method(labelOf(one), actions(one)), ...cells(i, "corrected")] }));
    table.replaceChildren(modgap.tables.render({ caption: "Fitted corrections, evaluated on held-out rows",
      file: "workbench", columns: [{ label: "Correction" },
        ...names().map((name) => ({ label: modgap.terms.label(name), term: name }))],
      rows: [{ className: "raw", cells: ["as it is", ...cells(0, "raw")] }, ...rows],
      note: `Evaluated on ${counted(state.corrections[0].n_groups, ...unit)} that no fit has seen, `
        + `for ${info.queries.join(" and ")} queries; 95 % intervals. `
        + "The best of many tries looks a little better than it is. The file of the report’s own correction is "
        + "fitted on all rows, the others on the fit split." }));
  }

  function drawChart() {
    if (!state.corrections.length) return;
    if (chart) {
      chart.redraw();
      return;
    }
    chart = modgap.comparison.chart({ id: "workbench-figure", select: "workbench-metric",
      title: "Before and after", names: names(), goal: state.goal,
      caption: "The dashed line is the rows as they are, each dot a correction with its 95 % interval.",
      count: () => state.corrections.length,
      rows: (name) => state.corrections.map((one) => ({ label: one.name,
        value: null, ...one.corrected.metrics[name]?.value, marked: one.recommended })),
      reference: (name) => state.corrections[0].raw.metrics[name]?.value });
    demands.after(chart.element);
  }

  document.getElementById("workbench").replaceChildren(
    el("h2", {}, "Workbench"),
    el("p", { class: "lead" }, "Choose a correction and its parameters. It is fitted on one split of the rows "
      + "and evaluated on another, and stands beside the ones fitted earlier. "
      + `The metrics are about ${info.queries.join(" and ")} queries. A correction that serves one kind of query is `
      + "fitted for each, so that you can search with both."),
    el("form", { class: "live-form", on: { submit: (event) => {
      event.preventDefault();
      start();
    } } }, field("workbench-method", "Method", method), parameters, run, about),
    working, step, problem, table, demands);

  return { draw: () => {
    drawTable();
    drawDemands();
    drawChart();
  } };
}

modgap.live.workbench = makeWorkbench;
