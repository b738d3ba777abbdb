// The live explorer: search in one index of both modalities, and a workbench for corrections.
// Served by `modgap serve` only. It need not wait for the report.
//
//   modgap.live.start()         draw both sections; resolves when searched once
//   modgap.live.arrived(data)   the report is there: take up the correction it recommends
//   modgap.live.refresh()       the report ended otherwise: say what is so now

const { el, say } = modgap.dom;
const { ask } = modgap.server;

let state = null;

async function begin() {
  const info = await ask("info");
  modgap.terms.use(info);
  const known = { corrections: [], none: null, goal: null };
  known.nameOf = (id) => known.corrections.find((one) => one.id === id)?.name ?? "";
  const search = modgap.live.search(info, known);
  const workbench = modgap.live.workbench(info, known);
  modgap.head.navigation();
  known.used = search.used;
  known.use = (id) => {
    search.offer(id);
    workbench.draw();
    say(`${known.nameOf(id)} is used in search.`);
  };
  known.refresh = async (use) => {
    const listed = await ask("corrections");
    known.corrections = listed.corrections;
    known.none = listed.none_recommended;
    search.offer(use);
    workbench.draw();
  };
  document.getElementById("ask-correction").addEventListener("change", () => workbench.draw());
  await known.refresh();
  search.offer(known.corrections[0]?.id);
  workbench.draw();
  await search.random();
  return known;
}

async function start() {
  for (const id of ["search", "workbench"]) document.getElementById(id).hidden = false;
  state = begin();
  try {
    await state;
  } catch (error) {
    document.getElementById("search").replaceChildren(el("h2", {}, "Search"),
      el("p", { class: "missing", role: "alert" }, error.message));
  }
}

// The report may recommend a correction, which is then the one to search with.
async function arrived(data) {
  const known = await state?.catch(() => null);
  if (!known) return;
  known.goal = data.diagnosis?.goal ?? null;
  const before = known.used();
  await known.refresh();
  if (!before && known.corrections.length) known.use(known.corrections[0].id);
}

async function refresh() {
  const known = await state?.catch(() => null);
  await known?.refresh().catch(() => null);
}

Object.assign(modgap.live, { start, arrived, refresh });
