"""Prompt templates: sentences with {} where the name of a class goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from modgap.core.checks import InputValueError

# What CLIP's authors use for pictures, and CLAP's for sounds, where one template must do.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "image": ("a photo of a {}.",),
    "audio": ("this is a sound of {}.",),
}
_PLACE = "{}"


def check_templates(templates: str | Iterable[str]) -> tuple[str, ...]:
    """Templates that all have a place for the name of a class.

    >>> check_templates("a photo of a {}.")
    ('a photo of a {}.',)
    """
    found = (templates,) if isinstance(templates, str) else tuple(templates)
    if not found:
        raise InputValueError("There are no templates. Give at least one, such as 'a {}'.")
    for template in found:
        if _PLACE not in template:
            raise InputValueError(
                "A template must have {} where the name of the class goes, as in "
                f"'a photo of a {{}}.', got {template!r}."
            )
    return found


def read_templates(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The templates in a text file, one a line; empty lines do not count."""
    return check_templates(line for line in _lines(path) if line)


def read_classes(path: str | os.PathLike[str]) -> dict[str, str]:
    """The classes in a text file, in its order: a label a line, with its words behind a tab."""
    found: dict[str, str] = {}
    for line in _lines(path):
        label, _, words = (part.strip() for part in line.partition("\t"))
        if label in found:
            raise InputValueError(f"{path} has the class {label!r} twice.")
        if label:
            found[label] = words or as_words(label)
    if not found:
        raise InputValueError(f"{path} must have a class a line, got none.")
    return found


def as_words(label: str) -> str:
    """A label as it is said: folders and columns often have _ between words.

    >>> as_words("golden_retriever")
    'golden retriever'
    """
    return label.replace("_", " ").strip()


def prompts(words: str, templates: Iterable[str]) -> list[str]:
    """A class in every template.

    >>> prompts("dog", ["a photo of a {}.", "art of the {}."])
    ['a photo of a dog.', 'art of the dog.']
    """
    return [template.replace(_PLACE, words) for template in templates]


def _lines(path: str | os.PathLike[str]) -> list[str]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputValueError(f"{os.fspath(path)} must be UTF-8 text.") from error
    return [line.strip() for line in text.splitlines()]
