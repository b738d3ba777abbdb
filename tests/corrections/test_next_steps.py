"""What to do next: every command that modgap prints runs, and answers as it should."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from command_line import modgap, script
from index_services import new_name, postgres_url
from modgap import Correction, open_embeddings, open_pair
from modgap.corrections import load_corrections
from modgap.diagnosis.fix_indexes import build_indexes
from modgap.index import open_index
from modgap.search import search

pytestmark = pytest.mark.xdist_group("next steps")  # rows are fixed once

COMMAND = re.compile(r"(?:^|\s{2}|next: )((?:modgap|python|psql) .+)$")
NAMES = ("image", "text")


def rows(noise, n=440, d=16):
    """Rows of one meaning with a gap; images and texts are as noisy as ``noise`` says."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(n, d))
    return {
        name: (shared + much * rng.normal(size=shared.shape) + shift).astype(np.float32)
        for name, much, shift in zip(NAMES, noise, (2, -2), strict=True)
    }


# Where both are as noisy one metric serves both kinds of query, else each has its own.
NOISE = {"one metric": (0.4, 0.4), "two metrics": (1.0, 0.2)}


CASES = [
    ("two metrics", "text"),
    pytest.param(("two metrics", "image"), marks=pytest.mark.long),
    *((metrics, "both") for metrics in NOISE),
]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def fixed(request, tmp_path_factory):
    """A folder of two files that were fixed and diagnosed, and what these commands printed."""
    metrics, queries = request.param
    folder = tmp_path_factory.mktemp("next")
    held = rows(NOISE[metrics])
    asked = NAMES if queries == "both" else (queries,)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, side in held.items():
            np.save(f"{name}.npy", side)
        said = {}
        for command in ("fix", "diagnose"):
            ran = modgap(command, "image.npy", "text.npy", "--queries", queries, "-o", command)
            assert ran.status == 0, ran.err
            said[command] = ran
    corrections = load_corrections(folder / "fix")
    if metrics == "two metrics" and queries == "both":
        assert {one.metric for one in corrections.values()} == {"inner_product", "cosine"}
    return folder, held, asked, said


def printed(ran):
    lines = (ran.out + ran.err).splitlines()
    return [found[1] for line in lines if (found := COMMAND.search(line))]


def outputs(commands):
    """What the commands would write: the argument of -o, and the index that is built."""
    words = [shlex.split(command) for command in commands]
    named = [one[one.index("-o") + 1] for one in words if "-o" in one]
    return [*named, *(one[3] for one in words if one[1:3] == ["index", "build"])]


def follow(commands, modality=None):
    """Run commands as they are printed, and those that they print in turn; what each answered."""
    answers = []
    for command in commands:
        words = shlex.split(command)
        asked = words[words.index("--modality") + 1] if "--modality" in words else modality
        words = [f"{asked}.npy" if word == "QUERIES.npy" else word for word in words]
        assert words[0] == "modgap", command
        more = ("--row", "0", "--json") if words[1:3] == ["index", "search"] else ()
        ran = modgap(*words[1:], *more)
        assert ran.status == 0, f"{command}\n{ran.err}"
        answers.append((words, ran))
        if words[1:3] == ["index", "build"]:
            following = printed(ran)
            assert following, ran.err
            answers += follow(following)
    return answers


def best(correction, held, asking, k=10):
    """The ids and modalities that an exact search of the corrected documents finds."""
    documents = np.vstack([correction.apply(held[name], name) for name in correction.names])
    query = correction.apply(held[asking][:1], asking, "query")
    found, _ = search(query, documents, k, correction.metric)
    n = len(held["image"])
    return [(correction.names[row // n], row % n) for row in found[0].tolist()]


def check_searches(answers, held, asked, corrections):
    """Every kind of query was searched, and answered as an exact search does."""
    found = {}
    for words, ran in answers:
        if words[1:3] == ["index", "search"]:
            asking = words[words.index("--modality") + 1]
            hits = ran.json
            found[asking] = list(zip(hits["modalities"][0], hits["ids"][0], strict=True))
    served = {name for one in corrections.values() for name in one.queries}
    assert {*asked} <= {*found} <= served
    for asking in found:
        assert found[asking] == best(corrections[asking], held, asking)


@pytest.mark.parametrize("command", ["fix", "diagnose"])
def test_every_command_runs_and_no_two_write_one_file(fixed, monkeypatch, command):
    pytest.importorskip("faiss", reason="faiss is not installed")
    folder, held, asked, said = fixed
    monkeypatch.chdir(folder)
    commands = [one for one in printed(said[command]) if one.startswith("modgap")]
    written = outputs(commands)
    assert len(set(written)) == len(written), written
    for stale in Path().glob("*.faiss"):
        stale.unlink()
    answers = follow(commands)
    corrections = load_corrections(command)
    check_searches(answers, held, asked, corrections)
    for words, _ in answers:
        if words[1] == "apply" and "--role" in words:
            asking = words[words.index("--modality") + 1]
            np.testing.assert_array_equal(
                np.load(words[words.index("-o") + 1]),
                corrections[asking].apply(held[asking], asking, "query"),
            )


def test_every_correction_is_described_with_its_own_metric(fixed):
    folder, _, asked, said = fixed
    steps = said["fix"].out.split("What to do next")[1]
    readme = (folder / "fix" / "README.md").read_text()
    script = (folder / "fix" / "search.py").read_text()
    for asking in asked:
        correction = load_corrections(folder / "fix")[asking]
        metric = correction.metric.replace("_", " ")
        for text in (steps, readme, script):
            assert re.search(rf"{asking} queries.*rank.* by {metric}", text), text
        column = "embedding" if len(asked) == 1 else f"embedding_{asking}"
        assert f"{column} of fix/documents-*.parquet" in steps


def test_the_documents_and_the_search_that_are_written_serve_each_kind_of_query(fixed, monkeypatch):
    folder, held, asked, said = fixed
    monkeypatch.chdir(folder)
    commands = [one for one in printed(said["fix"]) if one.startswith("python")]
    assert len(commands) == len(asked)
    for command in commands:
        words = shlex.split(command)
        asking = words[words.index("--modality") + 1] if "--modality" in words else asked[0]
        correction = load_corrections("fix")[asking]
        column = "embedding" if len(asked) == 1 else f"embedding_{asking}"
        stored = open_embeddings("fix/documents-image.parquet", column=column).rows()
        np.testing.assert_array_equal(stored, correction.apply(held["image"], "image"))
        first = script(*words[1:]).out.split("query 1")[0].splitlines()[1:]
        found = [(line.split()[1], int(line.split()[2])) for line in first]
        assert found == best(correction, held, asking)


def test_psql_and_the_function_it_makes_answer_each_kind_of_query(fixed, monkeypatch):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder, held, asked, said = fixed
    monkeypatch.chdir(folder)
    (command,) = [one for one in printed(said["fix"]) if one.startswith("psql")]
    database = new_name()
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    url = urlsplit(postgres_url())
    host = parse_qs(url.query)["host"][0] if url.query else url.hostname
    environment = {"PGHOST": host, "PGUSER": url.username or "postgres", "PGDATABASE": database}
    with psycopg.connect(host=host, user=environment["PGUSER"], dbname=database,
                         autocommit=True) as connection:  # fmt: skip
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE TABLE items (id int, modality text, embedding vector(16))")
        with connection.cursor().copy("COPY items FROM STDIN") as copy:
            for name, side in held.items():
                for number, row in enumerate(side):
                    copy.write_row((number, name, str(row.tolist())))
        ran = subprocess.run(shlex.split(command), env=os.environ | environment,
                             capture_output=True, text=True, check=False)  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
        for asking in asked:
            (select,) = re.findall(rf"SELECT \* FROM search_by_{asking}\(.*?\)", said["fix"].out)
            query = select.replace("[…]", str(held[asking][0].tolist()))
            found = [(name, int(row)) for row, name, _ in connection.execute(query)]
            assert found == best(load_corrections("fix")[asking], held, asking)


def test_indexes_beside_a_fix_answer_each_kind_of_query(fixed, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    folder, held, asked, _ = fixed
    monkeypatch.chdir(folder)
    corrections = load_corrections("fix")
    made = {name: corrections[name] for name in asked}
    built = build_indexes(open_pair("image.npy", "text.npy"), made, Path("fix"))
    one = len({correction.metric for correction in made.values()}) == 1
    assert len(built) == (1 if one else len(asked))
    answered = {}
    for place, path in built.items():
        with open_index(place, load_corrections(path)) as index:
            for name in {*index.corrections} & {*asked}:
                hits = index.search(held[name][:1], name)
                answered[name] = list(zip(hits.modalities[0], hits.ids[0], strict=True))
    assert answered == {name: best(made[name], held, name) for name in asked}


def test_a_fit_for_both_kinds_of_query_prints_commands_that_run(tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    monkeypatch.chdir(tmp_path)
    held = rows(NOISE["one metric"])
    for name, side in held.items():
        np.save(f"{name}.npy", side)
    ran = modgap(
        "fit", "image.npy", "text.npy", "--queries", "both", "-o", "c/correction.safetensors"
    )
    answers = follow(printed(ran))
    check_searches(answers, held, NAMES, load_corrections("c"))
    stored = open_embeddings("image-documents-text.npy").rows()
    made_for_text = Correction.load("c/correction-text.safetensors")
    np.testing.assert_array_equal(stored, made_for_text.apply(held["image"], "image"))
