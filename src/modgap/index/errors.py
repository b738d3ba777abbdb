"""What a database's library complains of, as one sentence without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from modgap.core.checks import InputError, InputValueError, first_line
from modgap.core.files import FULL, WriteError, errno_of
from modgap.core.secrets import sentence_without_secrets


@contextmanager
def one_sentence(
    place: str, failures: tuple[type[Exception], ...], address: str = ""
) -> Iterator[None]:
    """What a database's library raises becomes one sentence that names the place.

    No secret of the address is repeated.
    """
    try:
        yield
    except InputError:
        raise
    except failures as error:
        if (number := errno_of(error)) is not None and number in FULL:
            raise WriteError(place, number) from error
        said, cause = said_by(error, address)
        raise InputValueError(f"{place} cannot be used: {said}.") from cause


def said_by(error: Exception, address: str) -> tuple[str, Exception | None]:
    """The first line of an error, and the error; None where that would tell a secret."""
    message = getattr(error, "message", None)
    whole = str((message() if callable(message) else message) or error)
    told = sentence_without_secrets(whole, address)
    tells = sentence_without_secrets(f"{error}{error.args}", address) != f"{error}{error.args}"
    return first_line(told or type(error).__name__)[:300], None if tells else error
