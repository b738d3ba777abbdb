// Numbers as text. Rounded on the page, whole in `data-value`, and traceable by `data-key`.
//
//   modgap.number.format(value, {digits, signed, exact})   "0.653", "+0.012", "5,000", "–" for null
//   modgap.number.show(data, path, {term, digits, signed})
//       the element for the number at `path` (an array of keys) of the document
//   modgap.number.element(value, key, options)      the same for a number from elsewhere
//   modgap.number.cell(data, path, options)         the same as the cell of a table
//   modgap.number.at(data, path)                    the value at a path, or null

const NOTHING = "–";
const SMALL = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function scientific(size) {
  const [digits, power] = size.toExponential(1).split("e");
  const raised = [...String(Math.abs(Number(power)))].map((d) => SMALL[d]).join("");
  return `${digits} × 10${Number(power) < 0 ? "⁻" : ""}${raised}`;
}

function size(value, digits) {
  if (digits !== undefined) return value.toFixed(digits);
  if (value >= 1e7 && !Number.isInteger(value)) return scientific(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-GB");
  if (value >= 1000) return Math.round(value).toLocaleString("en-GB");
  if (value < 0.0001) return scientific(value);
  if (value < 0.001) return value.toFixed(4);
  return value.toFixed(value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

// `exact` is for numbers that someone chose, such as temperatures: 0.3, not 0.300.
function format(value, { digits, signed = false, exact = false } = {}) {
  if (value === null || value === undefined || Number.isNaN(value)) return NOTHING;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const length = Math.abs(value);
  const text = exact ? String(Number(length.toPrecision(6))) : size(length, digits);
  const zero = Number(text.replace(/,/g, "")) === 0;
  if (value < 0 && !zero) return `−${text}`;
  return signed && !zero ? `+${text}` : text;
}

function at(data, path) {
  let value = data;
  for (const key of path) value = value?.[key];
  return value ?? null;
}

function update(element, value, key, options = {}) {
  const known = typeof value === "number" && !Number.isNaN(value);
  element.textContent = format(known ? value : null, options);
  element.dataset.key = key;
  element.dataset.value = known ? String(value) : "";
  return element;
}

function element(value, key, options = {}) {
  const made = update(modgap.dom.el("span", { class: "num" }), value, key, options);
  modgap.terms.attach(made, options.term ?? "");
  return made;
}

function cell(data, path, options = {}) {
  return { number: at(data, path), key: path.join("."), ...options };
}

function show(data, path, options = {}) {
  return element(at(data, path), path.join("."), options);
}

// A value with its interval, as three numbers: 0.653 [0.610, 0.702].
function interval(data, path, options = {}) {
  const part = (name) => show(data, [...path, name], options);
  return modgap.dom.el("span", { class: "interval" }, "[", part("low"), ", ", part("high"), "]");
}

modgap.number = { format, show, cell, element, update, interval, at };
