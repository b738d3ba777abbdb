"""The index commands: from files to an index, a search and its check, and what is refused."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from index_services import LIBRARIES, corrections, make_store, modgap, rows
from modgap.core.checks import check_values

X, Y = rows()
N = len(X)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "image.npy", X)
    np.save(folder / "text.npy", Y)
    np.save(folder / "both.npy", np.stack([X, Y]))
    np.save(folder / "narrow.npy", X[:, :4])
    for name, correction in corrections(X, Y).items():
        correction.save(folder / f"{name}.safetensors")
    return folder


@pytest.mark.parametrize("kind", sorted(LIBRARIES))
def test_an_index_is_built_searched_and_checked_from_the_command_line(kind, files, tmp_path):
    store = make_store(kind, tmp_path)
    table = store.words
    common = (store.address, files / "calibrate.safetensors")
    documents = (f"image={files / 'image.npy'}", f"text={files / 'text.npy'}")
    built = modgap("index", "build", *common, *documents, *table)
    assert built.stdout == ""
    assert f"stored {N} documents of image" in built.stderr
    assert "holds 160 documents" in built.stderr
    assert "embedding, 8 columns: Calibrate(" in built.stderr
    assert "text only: brought to unit length" in built.stderr
    assert "rank by    inner product" in built.stderr
    (following,) = [line for line in built.stderr.splitlines() if line.startswith("next: ")]
    assert following.startswith("next: modgap index search ")
    assert "QUERIES.npy --modality text" in following
    found = modgap(
        "index", "search", *common, files / "text.npy", "--modality", "text", "-k", "3", "--row",
        "5", "--json", *table,
    )  # fmt: skip
    result = json.loads(found.stdout)
    assert result["schema"] == "modgap/index_search/2"
    assert np.array(result["ids"]).shape == (1, 3)
    assert result["first_row"] == 5
    shown = modgap("index", "search", *common, files / "text.npy", "--only", "image", "-k", "2",
                   *table).stdout.splitlines()  # fmt: skip
    assert shown[0].split() == ["query", "place", "id", "modality", "score"]
    assert len(shown) == 1 + 2 * N
    checked = json.loads(modgap("index", "evaluate", *common, *documents, "--json", *table).stdout)
    assert checked["recall"] == {"text": 1.0}
    assert "recall@10" in modgap(
        "index", "evaluate", *common, files / "both.npy", "--queries",
        f"text={files / 'text.npy'}", *table,
    ).stdout  # fmt: skip


def test_a_build_looks_for_bad_values_once_in_every_row(files, tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    rows_checked: Counter = Counter()

    def counted(block, name, **more):
        rows_checked[name] += len(block)
        check_values(block, name, **more)

    for module in ("index.base", "corrections.row_map", "core.checks"):
        monkeypatch.setattr(f"modgap.{module}.check_values", counted)
    documents = (f"image={files / 'image.npy'}", f"text={files / 'text.npy'}")
    modgap("index", "build", tmp_path / "x.faiss", files / "calibrate.safetensors", *documents)
    raw_and_mapped = ("image", "text", "corrected image", "corrected text")
    assert rows_checked == dict.fromkeys(raw_and_mapped, N)


def test_what_is_refused_is_one_sentence_and_nothing_is_written(files, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    index, correction = tmp_path / "x.faiss", files / "center.safetensors"
    image, text = f"image={files / 'image.npy'}", f"text={files / 'text.npy'}"
    build = ("index", "build", index, correction)
    search = ("index", "search", index, correction, files / "text.npy")
    refused = [
        (build, "There is nothing to read"),
        ((*build, files / "image.npy", files / "text.npy"), "given as MODALITY=PATH"),
        ((*build, f"sound={files / 'image.npy'}"), "modality must be one of 'image', 'text'"),
        ((*build, image, image), "image is given twice"),
        ((*build, f"image={files / 'narrow.npy'}"), "for rows of 8 columns, but image has 4"),
        ((*build, f"image={tmp_path / 'gone.npy'}"), "There is no file"),
        (("index", "build", index, tmp_path / "gone", image), "There is no correction"),
        (("index", "build", "x.npy", correction, image), "An index is a file"),
        ((*build, "--from-column", "embedding"), "--from-column corrects a column of a Postgre"),
        ((*search, "--modality", "text"), "There is no index at"),
        (search, "A query needs its modality, 'image' or 'text' (modality=…, --modality …)"),
        ((*search, "--modality", "txt"), "Did you mean 'text'?"),
        ((*search, "--modality", "text", "--row", "80"), "--row must be below 80"),
        (("index", "build", "postgresql://127.0.0.1:1/x", correction, image, text), "cannot be"),
    ]
    for arguments, message in refused:
        done = modgap(*arguments, ok=False)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
