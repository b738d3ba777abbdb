// What search and workbench share: asking the server, fields of a form, one row as people see it.
// What the server says is text, never markup.
//
//   modgap.live.shared.{ask, pause, field, options, counted, sentence, mark, picture, label, named,
//   labelOf}
(function (modgap) {
  "use strict";

  const { el } = modgap.dom;
  const { format } = modgap.number;

  const pause = (time) => new Promise((done) => setTimeout(done, time));

  async function ask(address, body, method) {
    const options = { method: method ?? (body ? "POST" : "GET"), headers: { accept: "application/json" } };
    if (body) {
      options.headers["content-type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    let answer = null;
    try {
      answer = await fetch(`api/${address}`, options);
    } catch {
      throw new Error("The server does not answer. Is modgap serve still running?");
    }
    const said = await answer.json().catch(() => null);
    if (!answer.ok) throw new Error(said?.detail ?? `The server answered ${answer.status}.`);
    return said;
  }

  function field(id, label, control, note) {
    control.id = id;
    return el("div", { class: "live-field" }, el("label", { for: id }, label), control,
      note ? el("span", { class: "note" }, note) : null);
  }

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) => el("option", { value }, text)));
    if (entries.some(([value]) => value === chosen)) select.value = chosen;
  }

  function counted(number, one, many) {
    return `${format(number)} ${number === 1 ? one : many}`;
  }

  function sentence(words) {
    return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
  }

  function labelOf(correction) {
    if (!correction.recommended) return correction.name;
    return `${correction.name}, ${correction.label ?? "recommended"}`;
  }

  function mark(info, modality) {
    const side = info.names.indexOf(modality) === 0 ? "x" : "y";
    return el("span", { class: "side" },
      el("i", { class: `mark ${side}`, "aria-hidden": "true" }), modality);
  }

  function picture(item) {
    if (!item.thumbnail?.startsWith("/api/thumbnails/")) return null;
    const shown = el("img", { src: item.thumbnail.slice(1), alt: label(item) ?? "",
      loading: "lazy", class: "thumbnail" });
    shown.addEventListener("error", () => shown.remove());
    return shown;
  }

  function label(item) {
    return item.caption ?? item.id ?? null;
  }

  function named(info, item) {
    return el("p", { class: "item-name" }, mark(info, item.modality), ` row ${format(item.row)}`);
  }

  modgap.live = { shared: { ask, pause, field, options, counted, sentence, mark, picture, label, named,
    labelOf } };
})((globalThis.modgap ??= {}));
