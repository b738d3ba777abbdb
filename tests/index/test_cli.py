"""The index commands: from files to an index, a search and its check, and what is refused."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import numpy as np
import pytest

from index_services import corrections, make_store, modgap, rows
from modgap.core.checks import check_values
from modgap.corrections import ExpectedWrong, load_corrections
from modgap.corrections.background import FewQueriesWarning
from modgap.index import open_index
from modgap.search import ScoreCalibrator

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


@pytest.mark.parametrize("kind", ["faiss", "qdrant", "pgvector"])
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
    assert shown[0].split() == ["query", "rank", "id", "modality", "score"]
    assert len(shown) == 1 + 2 * N
    checked = json.loads(modgap("index", "evaluate", *common, *documents, "--json", *table).stdout)
    assert checked["exact_found"] == {"text": 1.0}
    assert "exact 10 found" in modgap(
        "index", "evaluate", *common, files / "both.npy", "--queries",
        f"text={files / 'text.npy'}", *table,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("method", ["calibrate", "expected"])
def test_a_calibrator_file_adds_a_probability_and_a_cut_off(method, files, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    path = files / f"{method}.safetensors"
    if method == "expected":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewQueriesWarning)
            ExpectedWrong().fit(X, Y, queries="text").correction_.save(path)
    index, calibrator = tmp_path / "x.faiss", tmp_path / "scores.safetensors"
    documents = (f"image={files / 'image.npy'}", f"text={files / 'text.npy'}")
    modgap("index", "build", index, path, *documents)
    with open_index(str(index), load_corrections(path)) as opened:
        hits = opened.search(Y, "text", k=5)
    right = [{("image", row), ("text", row)} for row in range(N)]
    fitted = ScoreCalibrator(k=5).fit(hits, right, modality="text")
    fitted.save(calibrator)
    search = ("index", "search", index, path, files / "text.npy", "--modality", "text")
    judged = (*search, "--calibrator", calibrator, "-k", "3")
    shown = modgap(*judged).stdout.splitlines()
    heads = [] if method == "calibrate" else ["expected", "wrong"]
    assert shown[0].split()[5:] == [*heads, "match", "probability"]
    assert len(shown) == 1 + 3 * N
    result = json.loads(modgap(*judged, "--json").stdout)
    np.testing.assert_allclose(result["probability"], fitted.predict(hits)[:, :3], atol=1e-5)
    cut = json.loads(modgap(*judged, "--at-least", "0.5", "--json").stdout)
    left_out = np.array(result["probability"]) < 0.5
    assert 0 < left_out.sum() < left_out.size
    assert [key is None for line in cut["ids"] for key in line] == left_out.ravel().tolist()
    cut = modgap(*judged, "--at-most", "1", "--json", ok=method == "expected")
    if method == "expected":  # the same results as without a calibrator, judged before the cut
        plain = json.loads(modgap(*search, "-k", "5", "--at-most", "1", "--json").stdout)
        both = json.loads(cut.stdout)
        assert both["ids"] == [line[:3] for line in plain["ids"]]
    else:
        assert "Expected wrong results need a background" in cut.stderr
    refused = modgap(*search, "--at-least", "0.5", ok=False)
    assert refused.returncode == 2
    assert "--at-least needs --calibrator" in refused.stderr


def test_a_build_looks_for_bad_values_once_in_every_row(files, tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    rows_checked: Counter = Counter()

    def counted(block, name, **more):
        rows_checked[name] += len(block)
        check_values(block, name, **more)

    for module in ("index.changing", "corrections.row_map", "core.checks"):
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
