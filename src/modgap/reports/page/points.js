// What can be done with points: colour them, select them with the mouse, by words and with the keyboard.
//
//   const points = modgap.points.make(data, {plot, scene, state, choose})
//   points.controls, points.legend, points.panel   elements
//   points.select(items, what)   select rows as the reader wants it: anew, added, taken away
//   points.clicked(item)         whether a click was meant to select
//   points.listen()              hear the drawing; after each time it was made anew
//   points.update()              after a change to 2-D or 3-D

const { el } = modgap.dom;
const TOOLS = { box: "Box", lasso: "Lasso", points: "Points" };
const HOW = [["replace", "replaces the last"], ["add", "adds to it"], ["remove", "takes away from it"]];
const NEAR = 5; // pixels that a click may move
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 1], ArrowDown: [1, -1],
  PageUp: [2, 1], PageDown: [2, -1] };

function make(data, { plot, scene, state, choose }) {
  const colours = modgap.colours.make(data, { changed: paint, select });
  const selection = modgap.selection.make(data, { partners: scene.partners, changed: paint });
  const sides = modgap.sides.of(data.picture);
  let painting = 0;
  let press = null; // of the mouse: where it began, what its modifier keys ask for, which point is there

  state.tool = null;
  state.look = {
    fills: colours.fills,
    words: colours.words,
    samples: colours.samples,
    selected: (side) => (selection.size() ? selection.of(side) : null),
  };

  const how = el("select", { id: "select-how" }, HOW.map(([, label]) => el("option", {}, label)));
  const tools = Object.entries(TOOLS).map(([tool, label]) => el("button", { type: "button", id: `tool-${tool}`,
    "aria-pressed": "false", on: { click: () => use(state.tool === tool ? null : tool) } }, label));

  // Soon, once for many changes, and not while Plotly draws: it hears of clicks in its own drawing.
  function paint() {
    colours.explain(selection.size() > 0);
    clearTimeout(painting);
    painting = setTimeout(() => scene.paint(state));
  }

  function use(tool) {
    state.tool = tool;
    update();
    scene.drag(state);
  }

  function update() {
    if (state.three && state.tool !== "points") state.tool = null;
    Object.keys(TOOLS).forEach((tool, i) => {
      tools[i].setAttribute("aria-pressed", String(state.tool === tool));
      tools[i].disabled = state.three && tool !== "points";
    });
  }

  function select(items, what, kind) {
    const wanted = kind ?? HOW[how.selectedIndex][0];
    selection.change(items, wanted);
    modgap.dom.say(`${what ? `${what}. ` : ""}${selection.sentence()}`);
    return items.length;
  }

  // In 3-D Plotly says it with every frame of a press, which may also turn the picture.
  function clicked(item) {
    if (state.tool !== "points") return false;
    if (state.three && press) press.item = item;
    else if (press) toggle(item);
    if (!state.three) press = null;
    return true;
  }

  function released(event) {
    if (!state.three || !press) return;
    const { item, at } = press;
    press = null;
    if (item && Math.hypot(event.clientX - at[0], event.clientY - at[1]) < NEAR) toggle(item);
  }

  function name({ side, index }) {
    const label = sides[side].labels?.[index];
    return `${data.names[side]} row ${sides[side].rows[index]}${label ? `: ${label}` : ""}`;
  }

  function toggle(item) {
    choose(item);
    selection.toggle(item);
    modgap.dom.say(`${name(item)}, ${selection.has(item) ? "added" : "removed"}. ${selection.sentence()}`);
  }

  function walk([axis, sign]) {
    const places = scene.points(state);
    if (axis >= places[0].length) return;
    const to = state.chosen ? modgap.walking.next(places, state.chosen, axis, sign) : modgap.walking.middle(places);
    if (!to) {
      modgap.dom.say("No row lies further in that direction.");
      return;
    }
    choose(to);
    modgap.dom.say(`${name(to)}${selection.has(to) ? ", selected" : ""}`);
  }

  plot.addEventListener("keydown", (event) => {
    if (event.target !== plot || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in STEPS && (state.three || STEPS[event.key][0] < 2)) walk(STEPS[event.key]);
    else if (event.key === " ") state.chosen ? toggle(state.chosen) : walk(STEPS.ArrowRight);
    else if (event.key === "Escape") {
      selection.clear();
      modgap.dom.say("Cleared. No rows are selected.");
    } else return;
    event.preventDefault();
  });
  plot.addEventListener("pointerdown", (event) => {
    press = { at: [event.clientX, event.clientY],
      how: event.shiftKey ? "add" : event.altKey ? "remove" : null };
  }, true);
  window.addEventListener("pointerup", released);

  function listen() {
    plot.on("plotly_selected", (event) => {
      // Plotly says it again when its own marks are taken away.
      if (!event || !press) return;
      const { how: asked } = press;
      press = null;
      const items = event.points.filter((one) => one.curveNumber < data.names.length)
        .map((one) => ({ side: one.curveNumber, index: one.pointNumber }));
      // After Plotly has finished its own part of the drag.
      setTimeout(() => select(items, null, asked));
    });
  }

  const controls = [colours.control, el("div", { class: "tools", role: "group", "aria-label": "Select with the mouse" },
    el("span", { "aria-hidden": "true" }, "Select with"), tools)];
  const panel = selection.element;
  panel.querySelector("h3").after(el("div", { class: "field" },
    el("label", { for: "select-how" }, "Each selection"), how));
  update();
  return { controls, legend: colours.legend, panel, select, clicked, listen, update };
}

modgap.points = { make };
