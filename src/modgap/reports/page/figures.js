// Figures: heading, caption, description, Plotly drawing made when it comes near, PNG and SVG.
//
//   modgap.figures.add({id, title, caption, describe, height, draw, controls, after})
//     caption      what to see, text or nodes; describe, the same for those who cannot see it
//     draw(width)  returns {traces, layout}; called again on a new width or theme
//     height       pixels, or a function of the width
//     controls     an element between caption and drawing; after, one below it
//     returns {element, plot, redraw}; element has data-drawn="true" once drawn
//   modgap.figures.layout(layout)   `layout` over the page's fonts, colours and margins
//   modgap.figures.config           Plotly's configuration on this page
//   modgap.figures.buttons(title, plot, figure)   the PNG and SVG buttons of a drawing; `figure` gives what
//                                   is written where that is more than what is on the screen
//   modgap.figures.print(on)        before and after printing
//   modgap.figures.widthOf(plot)    the width to draw at

const { el } = modgap.dom;
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const config = { displayModeBar: false, displaylogo: false, showTips: false, typesetMath: false,
  doubleClick: "reset", scrollZoom: false };
const PAPER = 680; // pixels that fit between the margins of A4 and of US letter
const figures = [];
let watcher = null;
let sizes = null;
let paper = 0;

function axis(colours, own) {
  return { gridcolor: colours.line, linecolor: colours.line, zeroline: false, fixedrange: true,
    tickfont: { color: colours.muted, size: 12 }, automargin: true, ticklabelstandoff: 4,
    exponentformat: "power", minexponent: 4,
    ...own, title: { font: { color: colours.ink, size: 13 }, standoff: 10, ...(own.title ?? {}) } };
}

function layout(own) {
  const colours = modgap.theme.colours();
  const axes = Object.fromEntries(Object.keys({ xaxis: 0, yaxis: 0, ...own })
    .filter((key) => /^[xy]axis\d*$/.test(key))
    .map((key) => [key, axis(colours, own[key] ?? {})]));
  return {
    paper_bgcolor: colours.paper, plot_bgcolor: colours.paper, dragmode: false,
    hoverlabel: { bgcolor: colours.surface, bordercolor: colours.muted, align: "left",
      font: { family: FONT, size: 13, color: colours.ink } },
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom",
      font: { size: 13, color: colours.ink }, bgcolor: "rgba(0,0,0,0)" },
    ...own, ...axes,
    font: { family: FONT, size: 13, color: colours.ink },
    margin: { l: 56, r: 16, t: 36, b: 52, ...(own.margin ?? {}) },
  };
}

function buttons(title, plot, figure = plot) {
  const one = (format) => {
    const label = `Download the figure “${title}” as ${format}`;
    return el("button", { type: "button", class: "save", "aria-label": label, title: label,
      on: { click: () => save(title, plot(), figure(), format.toLowerCase()) } }, format);
  };
  return el("span", { class: "buttons" }, one("PNG"), one("SVG"));
}

async function save(title, plot, figure, format) {
  const { width, height } = plot.getBoundingClientRect();
  try {
    const address = await Plotly.toImage(figure, { format, width: Math.round(width),
      height: Math.round(height), scale: format === "png" ? 2 : 1 });
    modgap.dom.save(`${modgap.tables.slug(title)}.${format}`, address);
  } catch {
    modgap.dom.say("The figure could not be written as a file.");
  }
}

function widthOf(plot) {
  return Math.floor(paper ? Math.min(paper, plot.clientWidth) : plot.clientWidth);
}

async function draw(figure) {
  const width = widthOf(figure.plot);
  if (!width) return;
  figure.width = width;
  const { traces, layout: own } = figure.draw(width);
  const height = typeof figure.height === "function" ? figure.height(width) : figure.height;
  figure.plot.style.height = `${height}px`;
  await Plotly.react(figure.plot, traces, layout({ ...own, width, height }), config);
  figure.drawn = true;
  figure.element.dataset.drawn = "true";
}

function near(entries) {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    draw(figures.find((figure) => figure.plot === entry.target));
  }
}

function resized(entries) {
  for (const entry of entries) {
    const figure = figures.find((one) => one.plot === entry.target);
    const width = Math.floor(entry.contentRect.width);
    if (!figure?.drawn || !width || width === figure.width) continue;
    cancelAnimationFrame(figure.frame);
    figure.frame = requestAnimationFrame(() => draw(figure));
  }
}

function start() {
  watcher = new IntersectionObserver(near, { rootMargin: "500px 0px" });
  sizes = new ResizeObserver(resized);
  modgap.theme.onChange(() => figures.forEach((figure) => figure.drawn && draw(figure)));
}

// Figures as wide as paper, in light colours, all of them; or back to the screen.
function print(on) {
  paper = on ? PAPER : 0;
  modgap.theme.print(on);
  if (on) drawAll();
}

function drawAll() {
  return Promise.all(figures.filter((figure) => !figure.drawn).map(draw));
}

function add({ id, title, caption, describe, height = 340, draw: make, controls, after }) {
  if (!watcher) start();
  const plot = el("div", { class: "plot", role: "img", "aria-label": describe });
  plot.style.height = `${typeof height === "function" ? height(900) : height}px`;
  const element = el("figure", { id, class: "figure", "data-figure": id },
    el("div", { class: "figure-head" }, el("h3", {}, title), buttons(title, () => plot)),
    el("figcaption", {}, caption), controls, plot, after);
  const figure = { element, plot, height, draw: make, drawn: false, width: 0, frame: 0 };
  figures.push(figure);
  watcher.observe(plot);
  sizes.observe(plot);
  return { element, plot, redraw: () => draw(figure) };
}

modgap.figures = { add, layout, config, buttons, print, widthOf };
