"""No password, key or token of an address is printed, whatever it is made of."""

from __future__ import annotations

import re
import traceback
import warnings
from unittest import mock
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from command_line import modgap
from modgap.core.checks import InputValueError
from modgap.core.secrets import sentence_without_secrets, without_secrets
from modgap.corrections import Center
from modgap.index import add_column, drop_column, open_index
from modgap.index.postgres import libpq_address, table_words

# Begins and ends with what no sentence of ours has in it, so that a piece of it is found too.
FIRST, LAST = "hunterA7q", "q7Zzecret"
PASSWORDS = st.text("/@:#?&=%+;,.'\"\\[]{}$ é\tz9", max_size=12).map(
    lambda middle: f"{FIRST}{middle}{LAST}"
)
USERINFO = [
    "postgresql://me:{}@127.0.0.1:1/db",
    "postgres://me:{}@127.0.0.1:1",
    "postgresql+psycopg://me:{}@127.0.0.1:1/db?sslmode=disable",
    "pg://:{}@127.0.0.1:1/db",
    "POSTGRESQL://me:{}@127.0.0.1:1/db",
    "qdrant+http://me:{}@127.0.0.1:1",
    "qdrant+https://{}@127.0.0.1:1",
    "qdrant:http://me:{}@127.0.0.1:1/x",
    "milvus+http://me:{}@127.0.0.1:z",
    "milvus:http://{}@127.0.0.1:z",
    "mysql://me:{}@host/db",
    "https://me:{}@host/both.faiss",
    "s3://me:{}@bucket/both.lance",
    "postgresql:me:{}@host",
    "postgres//me:{}@host",
    "me:{}@host/db",
]
PARAMETERS = [
    "postgresql://127.0.0.1:1/db?user=me&password={}",
    "postgresql://me@127.0.0.1:1/db?sslpassword={}&sslmode=disable",
    "qdrant+http://127.0.0.1:1?api_key={}",
    "qdrant:http://127.0.0.1:1/?apikey={}",
    "milvus+http://127.0.0.1:z?token={}",
    "host=127.0.0.1 port=1 user=me password={}",
    "password={} host=127.0.0.1",
    "redis://host?access_token={}",
]


def tells(text):
    return FIRST in text or LAST in text


@settings(max_examples=100)
@given(password=PASSWORDS, spelling=st.sampled_from(USERINFO + PARAMETERS))
@example(password=f"{FIRST}%zz{LAST}", spelling=USERINFO[0])
@example(password=f"{FIRST}/{LAST}", spelling=USERINFO[2])
@example(password=f"{FIRST}@{LAST}", spelling=PARAMETERS[0])
@example(password=f"{FIRST}?password={LAST}", spelling=USERINFO[0])
def test_an_address_is_shown_without_its_secret(password, spelling):
    address = spelling.format(password)
    assert not tells(without_secrets(address))
    pieces = re.split("[/@:?#]", password)  # where a library may cut it
    first, last = pieces[0], pieces[-1]
    said = [
        f"got {address!r}.",
        f"Illegal uri: [{address}], expected form 'http[s]://…'",
        f'failed to resolve host "{last}@127.0.0.1"',
        f"invalid percent-encoded token: {password}",
        f"Port could not be cast to integer value as {first!r}",
        f"GET {spelling.format(quote(password))} failed",
    ]
    for sentence in said:
        assert not tells(sentence_without_secrets(sentence, address)), sentence


@given(password=PASSWORDS.filter(lambda one: "@" not in one and "\n" not in one))
def test_an_address_inside_a_sentence_is_found_though_nobody_says_it(password):
    for spelling in USERINFO[:3]:
        said = sentence_without_secrets(f"cannot reach {spelling.format(quote(password))}: down")
        assert not tells(said)
        assert said.startswith("cannot reach postgres")
        assert said.endswith("down")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://host:5432/db",
        "postgresql://me@host/db?sslmode=require",
        "postgresql://[::1]:5432,other:1/db",
        "postgresql://me:@/db?host=/tmp/run",
        "qdrant:folder/points",
        "data/me@home/both.faiss",
        "image=image.npy",
        "milvus+http://host:19530",
    ],
)
def test_what_has_no_secret_is_shown_as_it_is(address):
    assert without_secrets(address) == address
    sentence = f"{address} cannot be used: key 3 of 'token' is missing, k=3."
    assert sentence_without_secrets(sentence, address) == sentence


def test_keys_of_the_environment_are_not_repeated(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", FIRST)
    monkeypatch.setenv("PGPASSWORD", LAST)
    assert sentence_without_secrets(f"bad header {FIRST}, {LAST}") == "bad header …, …"


def test_a_password_that_is_a_word_leaves_other_words_alone():
    address = "postgresql://postgres:postgres@host/shop"
    said = f"got {address}: user postgres has no postgresql://…"
    shown = sentence_without_secrets(said, address)
    assert shown == "got postgresql://…:…@host/shop: user … has no postgresql://…"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rows = np.random.default_rng(0).normal(size=(2, 20, 4)).astype(np.float32)
    np.save(folder / "rows.npy", rows[0])
    Center().fit(*rows).correction_.save(folder / "c.safetensors")
    return folder


@settings(max_examples=15)
@given(password=PASSWORDS, spelling=st.sampled_from(USERINFO + PARAMETERS), data=st.data())
@example(password=f"{FIRST}%zz{LAST}", spelling=USERINFO[0], data=None)
@example(password=f"12/{FIRST}", spelling=USERINFO[0], data=None)
def test_no_command_that_fails_repeats_the_password(files, password, spelling, data):
    for library in ("psycopg", "qdrant_client", "pymilvus"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    address = spelling.format(password)
    correction, rows = files / "c.safetensors", files / "rows.npy"
    commands = [
        ("search", address, correction, rows, "--modality", "text"),
        ("build", address, correction, f"image={rows}"),
        ("build", address, correction, "--table", "t", "--from-column", "embedding"),
        ("evaluate", address, correction, f"image={rows}"),
        ("drop-column", address, "--table", "t"),
        ("search", address),  # an argument is missing
        ("drop-column", "x", address, address, "--table", "t"),
    ]
    command = commands[1] if data is None else data.draw(st.sampled_from(commands))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Qdrant's client warns of keys over http
        ran = modgap("index", *command)
    assert ran.status == 2
    assert ran.err.startswith("modgap: ")
    assert ran.err.count("\n") == 1
    assert not tells(ran.err + ran.out)


def test_what_a_library_says_of_the_address_is_neither_printed_nor_in_the_traceback():
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    address = f"postgresql://me:{FIRST}@127.0.0.1:1/db"
    correction = Center().fit(*np.random.default_rng(0).normal(size=(2, 20, 4))).correction_
    failure = psycopg.OperationalError(f"cannot log in as me:{FIRST}@127.0.0.1")
    with mock.patch("psycopg.connect", side_effect=failure):
        for opened in (
            lambda: open_index(address, correction),
            lambda: add_column(address, "items", correction),
        ):
            with pytest.raises(InputValueError, match="cannot log in as me:…@127") as error:
                opened()
            assert not tells("".join(traceback.format_exception(error.value)))


@pytest.mark.parametrize(
    "address",
    [
        "postgres://me:p%2Fw@host:5432/shop?sslmode=require",
        "postgresql+psycopg://me:p%2Fw@host:5432/shop?sslmode=require",
        "postgresql+asyncpg://me:p%2Fw@host:5432/shop?sslmode=require",
        "pg://me:p%2Fw@host:5432/shop?sslmode=require",
    ],
)
def test_other_spellings_of_postgresql_are_understood(address):
    plain = "postgresql://me:p%2Fw@host:5432/shop?sslmode=require"
    assert libpq_address(address) == plain
    assert table_words(address, "t") == "table 't' of shop at host"


@pytest.mark.parametrize("password", ["a/b", "a@b", "%zz", "a b", "1/b", "a%00b"])
def test_a_password_that_is_not_encoded_is_refused_before_anything_is_sent(password):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with (
        mock.patch("psycopg.connect") as connect,
        pytest.raises(InputValueError, match=r"%2F for a /, .*got 'postgresql://me:…@host/db'"),
    ):
        drop_column(f"postgresql://me:{password}@host/db", "t")
    assert not connect.called


def test_signs_that_libpq_takes_in_a_password_are_left_alone():
    address = "postgresql://me:a#b?c[:d@host/db"
    assert libpq_address(address) == address
    assert table_words(address, "t") == "table 't' of db at host"
