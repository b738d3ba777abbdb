"""Hubs and many modalities from the command line, and in what ``fix`` writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import script
from hub_rows import DATA, GROUPS, HUBS, KEYED, N, X, Y, stored, three
from index_services import (
    modgap,
)
from modgap import Modalities
from modgap.corrections import (
    Calibrate,
    Correction,
)
from modgap.diagnosis.fix_texts import readme, search_script
from modgap.io import write_embeddings
from modgap.search import search


def test_the_search_that_fix_writes_needs_no_bank_and_takes_any_number_of_modalities(tmp_path):
    data = Modalities.of(three(), paired=False)
    correction = HUBS.fit(data).correction_
    correction.save(tmp_path / "correction.safetensors", bank=False)
    for name in data.names:
        documents = stored(correction, data, name)
        write_embeddings(tmp_path / f"documents-{name}.parquet", documents)
    np.save(tmp_path / "example-queries-text.npy", Y[:3])
    (tmp_path / "search.py").write_text(search_script({"text": correction}), encoding="utf-8")
    ran = script(tmp_path / "search.py", "-k", "4")
    found = [line.split() for line in ran.out.splitlines() if not line.startswith("query")]
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    keys = [(n, str(i)) for n in data.names for i in range(data.sides[n].n_rows)]
    best, _ = search(correction.apply(Y[:3], "text", "query"), whole, 4, "inner_product")
    assert [(name, row) for _, name, row, _ in found] == [keys[i] for i in best.ravel()]


def test_the_page_beside_the_files_says_where_the_bank_is():
    whole, bare = KEYED["row"], KEYED["row"].without_bank()
    names = ("image", "text")
    said = readme({"text": whole}, names)
    assert "bank of 80 queries" in said
    assert "The correction and `pgvector.sql` carry the bank" in said
    without = readme({"text": bare}, names)
    assert "pgvector.sql" not in without
    assert "# a new one" not in without
    assert "The bank was left out of these files" in without
    assert "bank" not in readme({"text": Calibrate().fit(X, Y).correction_}, names)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "image.npy", X)
    np.save(folder / "text.npy", Y)
    np.save(folder / "labels.npy", GROUPS)
    for name, correction in KEYED.items():
        correction.save(folder / f"{name}.safetensors")
    return folder


@pytest.mark.parametrize("name", ["row", "group"])
def test_apply_leaves_a_documents_own_queries_out(files, tmp_path, name):
    labels = ["--groups", files / "labels.npy"] if name == "group" else []
    modgap(
        "apply", files / f"{name}.safetensors", files / "image.npy", "--modality", "image",
        "-o", tmp_path / "out.npy", "--without-bank", tmp_path / "bare.safetensors", *labels,
    )  # fmt: skip
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), stored(KEYED[name], DATA[name], "image")
    )
    bare = Correction.load(tmp_path / "bare.safetensors")
    assert bare.hubs.bank is None
    asked = modgap(
        "apply", tmp_path / "bare.safetensors", files / "text.npy", "--modality", "text",
        "--role", "query", "-o", tmp_path / "queries.npy",
    )  # fmt: skip
    assert "80 rows of 9 columns" in asked.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "queries.npy")[:, -1], np.ones(N))


def test_the_bank_is_not_removed_from_the_file_that_is_read(files, tmp_path):
    image, whole = files / "image.npy", files / "row.safetensors"
    said = modgap(
        "apply", whole, image, "--modality", "image", "-o", tmp_path / "out.npy", "--without-bank",
        whole, ok=False,
    )  # fmt: skip
    assert "is a file being read" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_index_built_with_labels_is_searched_by_the_file_without_the_bank(files, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    index, bare = tmp_path / "x.faiss", tmp_path / "bare.safetensors"
    documents = [f"{name}={files / name}.npy" for name in ("image", "text")]
    given = ",".join(f"{name}={files / 'labels.npy'}" for name in ("image", "text"))
    labels = ["--groups", given]
    common = (index, files / "group.safetensors", *documents, *labels)
    modgap("index", "build", *common, "--without-bank", bare)
    checked = json.loads(modgap("index", "evaluate", *common, "--json").stdout)
    assert checked["exact_found"] == {"text": 1.0}
    found = json.loads(
        modgap("index", "search", index, bare, files / "text.npy", "-k", "5", "--json").stdout
    )
    data, correction = DATA["group"], KEYED["group"]
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    _, scores = search(correction.apply(Y, "text", "query"), whole, 5, "inner_product")
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-4, atol=1e-5)
    said = modgap("index", "evaluate", index, bare, *documents, ok=False)
    assert "The bank of queries was removed" in said.stderr
