// What search and workbench share: fields of a form, words, and one row as people see it.
//
//   modgap.live.shared.{field, options, counted, sentence, labelOf, hitOf}

const { el } = modgap.dom;
const { format } = modgap.number;

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

function picture(item, label) {
  if (!item.thumbnail?.startsWith("/api/thumbnails/")) return null;
  const shown = el("img", { src: item.thumbnail.slice(1), alt: label ?? "", loading: "lazy", class: "thumbnail" });
  shown.addEventListener("error", () => shown.remove());
  return shown;
}

// A row of the server as modgap.hits draws it.
function hitOf(info, item) {
  const label = item.caption ?? item.id ?? null;
  return { side: info.names.indexOf(item.modality), modality: item.modality, row: item.row, match: item.match,
    label, picture: picture(item, label) };
}

modgap.live = { shared: { field, options, counted, sentence, labelOf, hitOf } };
