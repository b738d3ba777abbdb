"""The API's page: every route from the OpenAPI document, in one file that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from modgap.core.results import html_table
from modgap.reports.assemble import fill

_JSON = "application/json"


def docs_page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document; all of its texts are shown as text."""
    info = document["info"]
    schemas = document.get("components", {}).get("schemas", {})
    sections = [
        "".join(["<section>", *_operation(path, verb, operation, schemas), "</section>"])
        for path, operations in document["paths"].items()
        for verb, operation in operations.items()
    ]
    return fill(
        "docs.html",
        title=escape(info["title"]),
        version=escape(info["version"]),
        about=escape(info.get("description", "")),
        sections="\n".join(sections),
    )


def _operation(
    path: str, verb: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterator[str]:
    yield f'<h2><code><span class="verb">{verb.upper()}</span> {escape(path)}</code></h2>'
    yield f"<p>{escape(operation['description'])}</p>"
    parameters = [
        (p["name"], p["in"], f"{_type_of(p['schema'])} {p.get('description', '')}")
        for p in operation.get("parameters", ())
    ]
    yield _table("Parameters", ("name", "where", "what"), parameters)
    answers = operation["responses"]
    bodies = {"Request": operation.get("requestBody", {})}
    bodies |= {f"Answer {status}": a for status, a in answers.items() if status.startswith("2")}
    for title, body in bodies.items():
        content = body.get("content", {}).get(_JSON)
        if content is None:
            continue
        shown = f"{title}: {_type_of(content['schema'])}"
        fields = schemas.get(_type_of(content["schema"]), {})
        yield _table(shown, ("field", "type", "what"), list(_fields(fields)))
        for example in content.get("examples", {}).values():
            text = json.dumps(example["value"], indent=2, ensure_ascii=False)
            yield f"<pre>{escape(text)}</pre>"
    said = [(status, answer["description"]) for status, answer in answers.items()]
    yield _table("Answers", ("status", "when"), said)


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        needed = "" if name in schema.get("required", ()) else " (optional)"
        yield name + needed, _type_of(field), field.get("description", "")


def _table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f'<div class="wide">{html_table(header, rows, caption)}</div>' if rows else ""


def _type_of(schema: Mapping[str, Any]) -> str:
    """A type in few words; a model by its name."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " | ".join(dict.fromkeys(_type_of(option) for option in options))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum") or [schema["const"]]
        return " | ".join(json.dumps(value) for value in values)
    if schema.get("type") == "array":
        return f"[{_type_of(schema.get('items', {}))}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{name: {_type_of(schema['additionalProperties'])}}}"
    bounds = (("minimum", "from"), ("maximum", "to"))
    limits = [f"{word} {schema[key]}" for key, word in bounds if key in schema]
    return " ".join([str(schema.get("type", "any")), *limits])
