// The picture: the modalities in one projection, and a slider that closes the gap of two.
//
//   modgap.picture.render(data)   resolves once the picture is drawn

const { el, add } = modgap.dom;
const FRAME = 140; // milliseconds a step lasts when played
let redraw = () => Promise.resolve();

function select(id, label, options, change) {
  const box = el("select", { id, on: { change: () => change(box.selectedIndex) } },
    options.map((text) => el("option", {}, text)));
  return el("div", { class: "field" }, el("label", { for: id }, label), box);
}

function toggle(id, label, on, change) {
  const box = el("input", { type: "checkbox", id, on: { change: () => change(box.checked) } });
  box.checked = on;
  return el("label", { class: "check", for: id }, box, label);
}

function button(id, label, click) {
  return el("button", { type: "button", id, on: { click } }, label);
}

// One call per frame, whatever the slider does in between.
function throttled(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

function slider(data, state, metrics, moved) {
  const range = el("input", { type: "range", id: "slider", min: 0, step: 1, value: 0,
    "aria-describedby": "path-about" });
  const output = el("output", { for: "slider", class: "slider-value" });
  const about = el("p", { class: "note", id: "path-about" });
  const ends = el("div", { class: "ends", "aria-hidden": "true" },
    el("span", {}, "as it is"), el("span", {}));
  const play = button("play", "Play", () => (state.playing ? stop() : start()));
  let timer = 0;

  function step(index) {
    state.step = index;
    state.t = state.path.steps[index];
    range.value = String(index);
    range.dataset.t = String(state.t);
    const closed = ["paths", state.pathIndex, "gap_closed", index];
    range.setAttribute("aria-valuetext", `Step ${index} of ${range.max}, `
      + `gap closed: ${modgap.number.format(modgap.number.at(data, closed))} %`);
    output.replaceChildren(modgap.number.show(data, closed, { term: "gap_closed" }), " %");
    metrics.step(index);
    moved();
  }

  function stop() {
    clearInterval(timer);
    state.playing = false;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  function start() {
    state.playing = true;
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    const last = state.path.steps.length - 1;
    if (state.step >= last) step(0);
    timer = setInterval(() => (state.step >= last ? stop() : step(state.step + 1)), FRAME);
  }

  function path(index) {
    stop();
    state.pathIndex = index;
    state.path = data.paths[index];
    const { steps } = state.path;
    range.max = String(steps.length - 1);
    ends.lastChild.textContent = state.path.method_at_1;
    metrics.path(index);
    const away = steps.map((t) => Math.abs(t - state.t)); // ways may have steps of their own
    step(away.indexOf(Math.min(...away)));
    describe();
  }

  function describe() {
    const still = modgap.moving.moves(state.projection, state.path) ? ""
      : ` ${state.projection.label} cannot show moved rows: its points stay, the numbers change.`;
    about.textContent = `${state.path.about ?? ""}${still}`;
  }

  range.addEventListener("input", () => {
    stop();
    step(Number(range.value));
  });
  const element = el("div", { class: "slider" },
    el("div", { class: "slider-head" },
      select("path", "Way", data.paths.map((one) => one.label), (index) => {
        path(index);
        redraw();
      }), play,
      el("span", { class: "slider-line" },
        el("label", { for: "slider" }, "Gap closed:"), output)), range, ends, about);
  return { element, path, describe };
}

function build(data, place) {
  const { picture, names } = data;
  const hasPaths = (data.paths ?? []).length > 0;
  const many = names.length > 2; // lines between more than two clouds hide them
  const counts = modgap.sides.of(picture).map(({ rows }, i) => `${rows.length} ${names[i]} rows`);
  const state = { projection: picture.projections[0], path: null, pathIndex: 0, step: 0, t: 0,
    lines: Boolean(picture.lines?.length) && !many, three: false, chosen: null, playing: false };
  const plot = el("div", { class: "plot picture-plot", role: "application", tabindex: 0,
    "aria-describedby": "selection-hint", "aria-label": `Scatter plot of `
    + `${modgap.sides.list(counts)} in two dimensions; the numbers beside it say what it shows.` });
  const scene = modgap.scene.make(plot, picture, names);
  const metrics = hasPaths ? modgap.metrics.make(data) : null;
  const points = modgap.points.make(data, { plot, scene, state, choose });
  const card = modgap.card.make(data, { partners: scene.partners, choose, select: points.select });
  const about = el("p", { class: "note" });
  const figure = el("figure", { class: "figure", id: "picture-figure", "data-figure": "picture" });
  const move = throttled(() => {
    if (!figure.dataset.drawn) return;
    scene.move(state);
    figure.dataset.t = String(state.t);
  });

  redraw = async () => {
    about.textContent = state.projection.about ?? "";
    await scene.draw(state);
    listen();
    figure.dataset.drawn = "true";
  };

  function choose(chosen) {
    state.chosen = chosen;
    card.show(chosen, true);
    move();
  }

  const itemAt = (event) => {
    const point = event.points?.[0];
    if (!point || point.curveNumber >= names.length) return null;
    return { side: point.curveNumber, index: point.pointNumber };
  };

  // Plotly forgets its listeners when a drawing is purged, as a change to 3-D does.
  function listen() {
    if (plot.listening === plot.on) return;
    plot.listening = plot.on;
    plot.on("plotly_hover", (event) => card.show(itemAt(event), false));
    plot.on("plotly_unhover", () => card.show(null, false));
    plot.on("plotly_click", (event) => {
      const chosen = itemAt(event);
      if (chosen && !points.clicked(chosen)) choose(chosen);
    });
    points.listen();
  }

  const slide = hasPaths ? slider(data, state, metrics, move) : null;
  const three = button("three", "Show in 3-D", () => {
    state.three = !state.three;
    three.textContent = state.three ? "Show in 2-D" : "Show in 3-D";
    points.update();
    redraw();
  });
  const gl = modgap.scene.webgl();
  const solid = () => gl && state.projection.origin.length > 2
    && modgap.sides.of(state.projection)[0].length > 2;
  const controls = el("div", { class: "controls" },
    select("projection", "Projection", picture.projections.map((one) => one.label), (index) => {
      state.projection = picture.projections[index];
      three.hidden = !solid();
      if (!solid()) state.three = false;
      slide?.describe();
      redraw();
    }),
    picture.lines?.length ? toggle("lines", many ? "Lines between matches" : "Lines between pairs", state.lines, (on) => {
      state.lines = on;
      move();
    }) : null,
    three, button("reset", "Reset view", () => redraw()), points.controls);
  three.hidden = !solid();
  figure.append(
    el("div", { class: "figure-head" }, el("h3", {}, `${modgap.sides.list(names)} in one space`),
      modgap.figures.buttons(`Picture of ${modgap.sides.list(names)}`, () => plot, () => scene.figure(state))),
    el("figcaption", {}, many ? "The distance between two clouds is the gap of the two."
      : `The distance between the two clouds is the gap.${state.lines
        ? " Every line joins two rows that match." : ""}`),
    controls, points.legend, plot, about);
  add(figure, slide?.element, modgap.head.missing(data, "slider",
    hasPaths ? null : "There is no move to close the gap by."));
  place.append(el("div", { class: "picture-grid" }, figure,
    el("div", { class: "picture-side" }, many ? modgap.gaps.table(data) : metrics?.element, card.element,
      modgap.head.missing(data, "captions"), modgap.head.missing(data, "thumbnails"))), points.panel);
  add(place, modgap.head.missing(data, "fields"));
  slide?.path(0);
  watch(plot);
  modgap.theme.onChange(() => figure.dataset.drawn && redraw());
  return redraw();
}

function watch(plot) {
  let size = "";
  new ResizeObserver(throttled(() => {
    const now = `${plot.clientWidth}x${plot.clientHeight}`;
    if (size && now !== size && plot.clientWidth) redraw();
    size = now;
  })).observe(plot);
}

async function render(data) {
  const place = document.getElementById("picture");
  place.append(el("h2", {}, "The picture"));
  if (!data.picture?.projections?.length) {
    place.append(modgap.head.missing(data, "picture", "There is nothing to draw."));
    return;
  }
  place.append(el("p", { class: "lead" }, !data.paths?.length
    ? "Every point is one row. Where the clouds of two modalities are apart, there is a gap between them."
    : "Every point is one row. Move the slider to apply the correction, and see what gets better and what gets worse."));
  await build(data, place);
}

modgap.picture = { render };
