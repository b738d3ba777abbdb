// Elements, text and files. Nothing here or elsewhere parses text as markup: the document is data.
//
//   modgap.dom.el(tag, attributes, ...children)    an HTML element; `on: {click: f}` adds listeners
//   modgap.dom.svg(tag, attributes, ...children)   the same in SVG
//   modgap.dom.add(element, ...children)           append children, without those that are null
//   modgap.dom.image(uri, alt)                     <img> of an inline picture, or null
//   modgap.dom.plain(text, limit)                  text as Plotly shall draw it: no markup, wrapped
//   modgap.dom.save(name, content, type)           offer a file (text, bytes or a data: address)
//   modgap.dom.bytes(base64)                       its bytes
//   modgap.dom.copy(text)                          text to the clipboard
//   modgap.dom.say(sentence)                       tell screen readers what just happened

const SVG = "http://www.w3.org/2000/svg";
const PICTURE = /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]*$/;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) {
        element.addEventListener(event, listener);
      }
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function add(element, ...children) {
  return fill(element, null, children);
}

function image(uri, alt) {
  if (typeof uri !== "string" || !PICTURE.test(uri)) return null;
  return el("img", { src: uri, alt: alt ?? "", class: "thumbnail" });
}

function wrap(text, width) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const last = lines.length - 1;
    if (lines[last] && lines[last].length + word.length >= width) lines.push(word);
    else lines[last] += (lines[last] ? " " : "") + word;
  }
  return lines;
}

// Plotly reads a little HTML in every string it draws; only our own line breaks shall be read.
function plain(text, limit = 240, width = 56) {
  const whole = String(text ?? "");
  const short = whole.length > limit ? `${whole.slice(0, limit - 1)}…` : whole;
  return wrap(short, width)
    .map((line) => line.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"))
    .join("<br>");
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// A data: address as the content it stands for; browsers may drop downloads of such addresses.
function content(address) {
  const comma = address.indexOf(",");
  const rest = address.slice(comma + 1);
  const head = address.slice(5, comma);
  return head.endsWith(";base64") ? [bytes(rest), head.slice(0, -7)] : [decodeURIComponent(rest), head];
}

function save(name, what, type = "text/plain") {
  const data = typeof what === "string" && what.startsWith("data:");
  const [body, kind] = data ? content(what) : [what, type];
  const address = URL.createObjectURL(new Blob([body], { type: kind }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 30000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page opened from a file may have no clipboard; selecting and copying still works.
    const area = el("textarea", { class: "visually-hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function say(sentence) {
  const place = document.getElementById("said");
  if (place) place.textContent = sentence;
}

modgap.dom = { el, svg, add, image, plain, bytes, copy, save, say };
