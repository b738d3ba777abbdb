"""Addresses without their passwords: what may be printed, logged or written into a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, unquote_plus

_HIDDEN = "…"
# Names of parameters whose values are not to be shown: sslpassword, api-key, access_token, ….
_SECRET_NAME = re.compile(
    r"(?i)[\w.-]*(?:passw|passphrase|pwd|api[-_]?key|token|secret|credential|signature)[\w.-]*"
    r"|-*(?:pass|key|auth|sig)"
)
_PARAMETER = re.compile(r"(?:^|[\s?&;#/'\"(])([^\s=?&;#/@:'\"(]+)\s*=\s*")
_SCHEME = re.compile(r"(?:(?:qdrant|milvus):)?[A-Za-z][\w+.-]*:/+")
# The other form of PostgreSQL's addresses: host=… password=…
_KEYWORDS = re.compile(r"(?i)\s*(?:host|hostaddr|port|dbname|user|service|\w*pass\w*|ssl\w+)\s*=")
# There users are shown; elsewhere what stands before the @ may be a token.
_POSTGRES = re.compile(r"(?i)(?:postgres(?:ql)?|pg)(?:\+\w+)?://")
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
# An address inside a sentence; one whose password has spaces ends at the last @ of the line.
_IN_SENTENCE = re.compile(
    r"[A-Za-z][\w+.:-]{0,40}://(?:\S*@|[^\s/@:]*:(?!\d+\b)[^\n]*@)?[^\s'\"<>]*"
)
_QUOTED_OR_WORD = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&;,'\")]+")
_DELIMITERS = re.compile(r"[\s/@:?#&=%;,'\"\[\]\\]+")
_ENVIRONMENT = ("QDRANT_API_KEY", "MILVUS_TOKEN", "PGPASSWORD", "MODGAP_TOKEN")
# Shorter pieces of a secret are not looked for; shorter secrets, and those of letters only, such as
# postgres, are looked for as words of their own: they may be part of any word.
_SHORTEST_PIECE, _SHORTEST_PART = 4, 6


def without_secrets(address: str) -> str:
    """An address of a database with an ellipsis for passwords, keys and tokens.

    What stands between a user and the last @ is taken for the password, and all that follows the
    name of a secret parameter for its value: rather too much is hidden than too little.

    >>> without_secrets("postgresql+psycopg://me:a/b@c@host:5432/db?sslmode=require")
    'postgresql+psycopg://me:…@host:5432/db?sslmode=require'
    >>> without_secrets("host=db user=me password='a b'"), without_secrets("qdrant+http://KEY@host")
    ('host=db user=me password=…', 'qdrant+http://…@host')
    """
    shown, done = "", 0
    for start, end in sorted(span for span in _secret_spans(address) if span[0] < span[1]):
        if start >= done:
            shown += address[done:start] + _HIDDEN
        done = max(done, end)
    return shown + address[done:]


def sentence_without_secrets(sentence: str, *addresses: str) -> str:
    """A sentence without the secrets of these addresses, and of those that stand in it.

    Neither has it the keys and passwords that databases' libraries take from the environment.

    >>> sentence_without_secrets("no host 'hunter2@host', see log", "pg://me:a@hunter2@host")
    "no host '…@host', see log"
    """
    known = {address[start:end] for address in addresses for start, end in _secret_spans(address)}
    known |= {os.environ.get(name, "") for name in _ENVIRONMENT}
    for secret in sorted(_spellings(known), key=len, reverse=True):
        sentence = re.sub(_pattern(secret), _HIDDEN, sentence)
    sentence = _IN_SENTENCE.sub(lambda match: without_secrets(match[0]), sentence)
    return _without_values(sentence)


def _secret_spans(address: str) -> Iterator[tuple[int, int]]:
    """From where to where there are secrets; they may overlap."""
    for found in _PARAMETER.finditer(address):
        if _SECRET_NAME.fullmatch(unquote(found[1])):
            yield found.end(), len(address)
            break
    with_keywords = _KEYWORDS.match(address) is not None
    scheme = _SCHEME.search(address) if with_keywords else _SCHEME.match(address)
    if scheme is None and with_keywords:
        return
    start = scheme.end() if scheme else 0
    at = address.rfind("@", start)
    colon = address.find(":", start, at if at >= 0 else len(address))
    if at < 0:
        hosts = re.split(r"[/?#\s]", address[start:])[0]
        if scheme and not _HOSTS.fullmatch(hosts):  # user:password, and no host
            yield colon + 1, len(address)
    elif scheme and not _POSTGRES.match(scheme[0]):
        yield start, at
    elif colon >= 0:
        yield colon + 1, at


def _spellings(secrets: Iterable[str]) -> set[str]:
    """Secrets as libraries may repeat them: decoded, encoded, escaped, or only a piece."""
    found = set()
    for secret in filter(None, secrets):
        said = {secret, unquote(secret), unquote_plus(secret), secret.strip("'\" ")}
        said |= {piece for one in said for piece in _DELIMITERS.split(one)
                 if len(piece) >= _SHORTEST_PIECE}  # fmt: skip
        found |= said | {form for one in said for form in (quote(one, safe=""), repr(one)[1:-1])}
    return found - {""}


def _pattern(secret: str) -> str:
    pattern = re.escape(secret)
    if len(secret) < _SHORTEST_PART or secret.isalpha():
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return pattern


def _without_values(sentence: str) -> str:
    """A sentence without the values of secret parameters, as in ``password=…``."""
    shown, done = "", 0
    for found in _PARAMETER.finditer(sentence):
        value = _QUOTED_OR_WORD.match(sentence, found.end())
        if value and value.start() >= done and _SECRET_NAME.fullmatch(unquote(found[1])):
            shown += sentence[done : value.start()] + _HIDDEN
            done = value.end()
    return shown + sentence[done:]
