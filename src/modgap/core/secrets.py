"""Addresses without their passwords: what may be printed, logged or written into a file."""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote

# A parameter whose value is a secret: sslpassword=, api-key=, access_token=, ….
_PARAMETER = (
    r"(?i:(?:^|(?<=[\s?&;#/'\"(]))(?:[\w.-]*"
    r"(?:passw|passphrase|pwd|api[-_]?key|token|secret|credential|signature)[\w.-]*"
    r"|-*(?:pass|key|auth|sig))\s*=\s*)"
)
_VALUE = re.compile(rf"({_PARAMETER})('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&;,'\")]+)")
_USER_INFO = re.compile(r"((?:(?:qdrant|milvus):)?[A-Za-z][\w+.-]*:/+)?([^:@]*:)?(.*)@", re.DOTALL)
# There users are shown; elsewhere what stands before the @ may be a token.
_POSTGRES = re.compile(r"(?i)(?:postgres(?:ql)?|pg)(?:\+\w+)?:/+")
# An address inside a sentence; one whose password has spaces ends at the last @ of the line.
_IN_SENTENCE = re.compile(
    r"[A-Za-z][\w+.:-]{0,40}://(?:\S*@|[^\s/@:]*:(?!\d+\b)[^\n]*@)?[^\s'\"<>]*"
)
_ENVIRONMENT = ("QDRANT_API_KEY", "MILVUS_TOKEN", "PGPASSWORD", "MODGAP_TOKEN")


def without_secrets(address: str) -> str:
    """An address of a database with an ellipsis for passwords, keys and tokens.

    Everything between a user and the last @ counts as the password, and everything after the name
    of a secret parameter as its value: rather too much is hidden than too little.

    >>> without_secrets("postgresql+psycopg://me:a/b@c@host:5432/db?sslmode=require")
    'postgresql+psycopg://me:…@host:5432/db?sslmode=require'
    >>> without_secrets("host=db user=me password='a b'"), without_secrets("qdrant+http://KEY@host")
    ('host=db user=me password=…', 'qdrant+http://…@host')
    """
    for start, end in _secret_spans(address):
        address = address[:start] + "\0" * (end - start) + address[end:]
    return re.sub("\0+", "…", address)


def sentence_without_secrets(sentence: str, *addresses: str) -> str:
    """A sentence without the secrets of these addresses, and of those that stand in it.

    The keys and passwords that databases' libraries take from the environment are hidden too.

    >>> sentence_without_secrets("no host 'hunter2@host', see log", "pg://me:a@hunter2@host")
    "no host '…@host', see log"
    """
    secrets = {address[start:end] for address in addresses for start, end in _secret_spans(address)}
    secrets |= {os.environ.get(name, "") for name in _ENVIRONMENT}
    # Libraries repeat a secret decoded, encoded, or cut where it has a /, @ or the like.
    whole = {form for one in secrets for form in (one, unquote(one), quote(one, safe=""))} - {""}
    words = {word for one in whole for word in re.findall(r"[A-Za-z0-9_]{4,}", one)}
    for secret in sorted(whole | words, key=len, reverse=True):
        pattern = re.escape(secret)
        if len(secret) < 6 or secret.isalpha():  # it may be part of any word, as postgres is
            pattern = rf"(?<!\w){pattern}(?!\w)"
        sentence = re.sub(pattern, "…", sentence)
    sentence = _IN_SENTENCE.sub(lambda match: without_secrets(match[0]), sentence)
    return _VALUE.sub(r"\1…", sentence)


def _secret_spans(address: str) -> list[tuple[int, int]]:
    """From where to where there are secrets; they may overlap."""
    found = []
    user_info = _USER_INFO.match(address)
    if user_info:
        scheme, user = user_info[1], user_info[2]
        if scheme and not _POSTGRES.fullmatch(scheme):
            found.append((user_info.end(1), user_info.end(3)))
        elif user:
            found.append(user_info.span(3))
    parameter = re.search(_PARAMETER, address)
    if parameter:
        found.append((parameter.end(), len(address)))
    return [(start, end) for start, end in found if start < end]
