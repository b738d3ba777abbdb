// The fix: what the correction demands, what to run, and the correction itself.
//
//   modgap.fix.render(data)

const { el, copy } = modgap.dom;

function code(title, text) {
  const button = el("button", { type: "button", class: "save", "aria-label": `Copy: ${title}`,
    on: { click: async () => {
      await copy(text);
      button.textContent = "Copied";
      modgap.dom.say("Copied.");
      setTimeout(() => (button.textContent = "Copy"), 1500);
    } } }, "Copy");
  return el("div", { class: "code" },
    el("div", { class: "figure-head" }, el("h3", {}, title), button),
    el("pre", { tabindex: 0, role: "region", "aria-label": title }, el("code", {}, text)));
}

function download(fix) {
  if (!fix.data) return null;
  const content = modgap.dom.bytes(fix.data);
  const size = content.length >= 1048576 ? `${(content.length / 1048576).toFixed(1)} MiB`
    : `${Math.max(1, Math.round(content.length / 1024))} KiB`;
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  return el("p", {}, el("a", { href: address, download: fix.file, class: "download", id: "download-fix" },
    `Download ${fix.file}`), ` (${size})`);
}

function render(data) {
  const place = document.getElementById("fix");
  const { fix } = data;
  place.hidden = !fix;
  if (!fix) return;
  modgap.dom.add(place, el("h2", {}, fix.label ? "A fix: " : "The recommended fix", fix.label ?? null),
    el("p", { class: "lead" }, el("code", { class: "method" }, fix.method),
      ` is one small file. Documents of ${modgap.sides.list(data.names)} go through it before they are `
      + `indexed, ${modgap.sides.list(fix.queries)} queries before they are asked: those you have, and those `
      + `that come later. ${fix.note}`),
    modgap.demands.facts(fix),
    el("div", { class: "codes" },
      fix.code ? code("In Python", fix.code) : null,
      fix.command ? code("In a shell", fix.command) : null),
    download(fix));
}

modgap.fix = { render };
