"""The API's page: every route from the OpenAPI document, in one file that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 0; }
section { border-top: 1px solid #8886; padding: 1rem 0; }
code, pre { font: 0.875rem/1.5 ui-monospace, monospace; }
pre { background: #8881; padding: 0.75rem; overflow-x: auto; }
.verb { display: inline-block; min-width: 4.5em; }
table { border-collapse: collapse; } td, th { padding: 0.15rem 1rem 0.15rem 0; text-align: left;
vertical-align: top; } .wide { overflow-x: auto; margin: 0.75rem 0; }
"""


def docs_page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document; all of its texts are shown as text."""
    info = document["info"]
    schemas = document.get("components", {}).get("schemas", {})
    sections = [
        _operation(path, verb, operation, schemas)
        for path, operations in document["paths"].items()
        for verb, operation in operations.items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{escape(info.get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a>. '
        'Back to <a href="/">the page</a>.</p>'
        f"{''.join(sections)}</main></body></html>"
    )


def _operation(
    path: str, verb: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> str:
    parts = [
        f'<section><h2><code><span class="verb">{escape(verb.upper())}</span> '
        f"{escape(path)}</code></h2>",
        f"<p><strong>{escape(operation.get('summary', ''))}.</strong> "
        f"{escape(operation.get('description', ''))}</p>",
        _table(
            ("parameter", "where", "what"),
            [
                (p["name"], p["in"], _type_of(p.get("schema", {})) + _said(p))
                for p in operation.get("parameters", ())
            ],
        ),
    ]
    for title, content in _bodies(operation):
        schema = content.get("schema", {})
        parts.append(f"<p>{escape(title)}: <code>{escape(_type_of(schema))}</code></p>")
        for name in _named(schema):
            parts.append(_fields(schemas.get(name, {})))
        for example in content.get("examples", {}).values():
            shown = json.dumps(example.get("value"), indent=2, ensure_ascii=False)
            parts.append(f"<pre>{escape(shown)}</pre>")
    answers = [
        (status, answer.get("description", ""))
        for status, answer in operation.get("responses", {}).items()
    ]
    return "".join([*parts, _table(("status", "when"), answers), "</section>"])


def _bodies(operation: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The JSON a request holds, and the JSON that answers it when all goes well."""
    found = []
    body = operation.get("requestBody", {}).get("content", {})
    if "application/json" in body:
        found.append(("Request", body["application/json"]))
    for status, answer in operation.get("responses", {}).items():
        content = answer.get("content", {})
        if status.startswith("2") and "application/json" in content:
            found.append((f"Answer {status}", content["application/json"]))
    return found


def _fields(schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        (name + ("" if name in needed else " (optional)"), _type_of(field), _said(field).strip())
        for name, field in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "what"), rows)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _said(holder: Mapping[str, Any]) -> str:
    return f" {holder['description']}" if holder.get("description") else ""


def _named(schema: Mapping[str, Any]) -> list[str]:
    """The models a schema refers to at its top."""
    options = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [o["$ref"].rpartition("/")[2] for o in options if "$ref" in o]


def _type_of(schema: Mapping[str, Any]) -> str:
    """A type in few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " | ".join(dict.fromkeys(_type_of(option) for option in options))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"[{_type_of(schema.get('items', {}))}]"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{{name: {_type_of(schema['additionalProperties'])}}}"
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"))
        if key in schema
    ]
    return " ".join([str(schema.get("type", "any")), *bounds])
