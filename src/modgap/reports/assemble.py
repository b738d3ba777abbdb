"""One page out of its pieces: the template, the styles, the scripts and the document.

``page_html`` makes the self-contained file. The server hands out the same pieces one by one:
``shell_html`` names the addresses they have there, and the page asks for its document itself.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

# A module may use those before it.
MODULES = [
    "dom", "number", "server", "terms", "theme", "sides", "tables", "figures", "histogram",
    "intervals", "panels", "head", "cutoff", "hits", "answers", "demands", "verdict", "first",
    "moving", "fields", "saving", "finding", "walking", "colours", "selection", "scene", "metrics",
    "card", "points", "gaps", "picture", "comparison", "corrections", "fix", "features", "geometry",
    "conformity", "landscapes", "measures",
]  # fmt: skip
LIVE_MODULES = ["live_shared", "search", "workbench", "live"]
# Each file is a function of its own: only what it adds to `modgap` is seen by the others.
_MODULE = '(function (modgap) {{\n"use strict";\n{}}})((globalThis.modgap ??= {{}}));\n'
STYLES = ["base", "parts", "first", "hits", "sections", "print"]
TEMPLATE = "page.html"
# Nothing is fetched and nothing leaves; pictures are inline or made by the page.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
)
_PAGE = resources.files("modgap.reports") / "page"
# Letters that could end the script element or a line of JavaScript.
_ESCAPES = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def page_html(document: Mapping[str, Any]) -> str:
    """The whole page as one file that needs no network, of data of schema ``modgap/report/2``."""
    hashes, scripts = _scripts()
    policy = _POLICY.format(scripts=hashes)
    data = f'<script type="application/json" id="modgap-data">{data_json(document)}</script>'
    return fill(
        TEMPLATE,
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        title=html.escape(f"{document.get('title') or 'Embeddings'} · modgap"),
        styles=f"<style>\n{styles()}</style>",
        scripts=f"{data}\n{scripts}",
    )


@cache
def _scripts() -> tuple[str, str]:
    """Hashes and elements of the scripts, five megabytes that are the same in every page."""
    # Ours comes first: the verdict is on the screen while the browser still reads Plotly.
    scripts = [_inline(script()), _inline(plotly_script())]
    elements = [f"<script>{text}</script>" for text in scripts]
    return " ".join(map(_hash, scripts)), "\n".join(elements)


def shell_html() -> str:
    """The page without document, styles and scripts, which are named by their addresses."""
    link = '<link rel="stylesheet" href="static/app.css">'
    tags = [f'<script src="static/{name}.js" defer></script>' for name in ("app", "plotly")]
    return fill(TEMPLATE, policy="", title="modgap", styles=link, scripts="\n".join(tags))


def script(live: bool = False) -> str:
    """The page's own script: all modules in order, with those of the live explorer if asked."""
    names = [*MODULES, *(LIVE_MODULES if live else ()), "boot"]  # which starts everything
    return "".join(_MODULE.format(_read(f"{name}.js")) for name in names)


def styles(live: bool = False) -> str:
    """The page's style sheet, with that of the live explorer if asked."""
    return "".join(_read(f"{name}.css") for name in [*STYLES, *(["live"] if live else [])])


def plotly_script() -> str:
    """Plotly's own script: built into the wheel, or from its Python package in a bare checkout."""
    if (_PAGE / "plotly.min.js").is_file():
        return _read("plotly.min.js")
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text


def data_json(document: Mapping[str, Any]) -> str:
    """The document as JSON that can stand inside a script element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda found: _ESCAPES[found.group()], text)


def _inline(text: str) -> str:
    # Browsers hash what they parsed: one kind of line end, and no early end of the element.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub("<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def fill(template: str, **parts: str) -> str:
    """A template of the page's folder, each ``{name}`` replaced by the part of that name."""
    # One pass, so that nothing put in is filled again.
    return re.sub(r"\{(\w+)\}", lambda found: parts[found.group(1)], _read(template))


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
