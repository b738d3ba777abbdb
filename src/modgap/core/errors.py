"""The errors that say what a user gave cannot be used, and what to do about it."""

from __future__ import annotations


class InputError(Exception):
    """What the user gave cannot be used; the message says what to do. The CLI prints it as is."""


class InputValueError(InputError, ValueError):
    """A value that cannot be used."""


class InputTypeError(InputError, TypeError):
    """A type that cannot be used."""


class MissingExtraError(InputError, ImportError):
    """An optional library that the call needs is not installed."""
