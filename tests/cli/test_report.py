from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from command_line import everything_in, modgap, refuse, succeed
from conftest import make_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixty pairs as two Parquet files, with ids, captions and a folder of images."""
    home = tmp_path_factory.mktemp("data")
    (home / "photos").mkdir()
    X, Y = make_pairs(60)
    names = [f"photo-{i}" for i in range(60)]
    for name in names[:50]:  # ten are missing
        Image.new("RGB", (20, 10), (0, 90, 0)).save(home / "photos" / f"{name}.png")
    pq.write_table(pa.table({"embedding": list(X), "id": names}), home / "image.parquet")
    texts = [f"caption {i}" for i in range(60)]
    pq.write_table(pa.table({"embedding": list(Y), "caption": texts}), home / "text.parquet")
    np.save(home / "image.npy", X)
    np.save(home / "text.npy", Y)
    return home


def data_of(page: Path) -> dict:
    """The document inside a page."""
    inside = re.search(
        r'<script type="application/json" id="modgap-data">(.*?)</script>',
        page.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    return json.loads(inside.group(1))


def test_the_page_holds_what_is_printed_as_json(folder, tmp_path):
    page = tmp_path / "new" / "page.html"
    ran = succeed(
        "report", folder / "image.npy", folder / "text.npy", "--no-umap", "--json", "-o", page
    )
    assert data_of(page) == ran.json
    assert ran.json["schema"] == "modgap/report/2"
    assert ran.err.splitlines() == [f"wrote {page}"]
    assert everything_in(page.parent) == {"page.html"}


def test_the_verdict_is_printed_and_the_same_run_writes_the_same_page(folder, tmp_path):
    pages = [tmp_path / name for name in ("one.html", "two.html")]
    for page in pages:
        ran = modgap("report", folder / "image.npy", folder / "text.npy", "--no-umap", "-o", page)
        assert ran.out.startswith(
            "In one index for both modalities, 81 % of the wrong results of text queries are texts"
        )
    assert pages[0].read_bytes() == pages[1].read_bytes()


@pytest.mark.filterwarnings("default:10 of 60 images")
def test_images_are_found_by_the_ids_of_the_rows(folder, tmp_path):
    page = tmp_path / "page.html"
    photos = tmp_path / "photos"
    shutil.copytree(folder / "photos", photos)
    (photos / "photo-50.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n")
    ran = succeed(
        "report", folder / "image.parquet", folder / "text.parquet", "--no-umap",
        "--images", photos, "--title", "My photos", "-o", page,
    )  # fmt: skip
    document = data_of(page)
    said = document["missing"]["thumbnails"]
    assert said.startswith("10 of 60 images could not be read: photo-50 (it is damaged, or none")
    assert said.endswith(f"photo-54 (there is no such file in {photos}); and 5 more.")
    assert ran.err == f"modgap: warning: {said}\nwrote {page}\n"
    assert document["title"] == "My photos"
    shown = document["picture"]["x"]
    assert sum(one is not None for one in shown["thumbnails"]) == 50
    assert shown["labels"][0] == "photo-0"
    assert document["picture"]["y"]["labels"][5] == "caption 5"


def test_the_page_is_about_the_queries_named(folder, tmp_path):
    page = tmp_path / "page.html"
    paths = folder / "image.npy", folder / "text.npy"
    succeed("report", *paths, "--no-umap", "--queries", "image", "-o", page)
    assert data_of(page)["queries"] == ["image"]
    named = modgap("report", *paths, "--no-umap", "--names", "a,b", "-o", page)
    assert (named.status, len(named.err.splitlines())) == (2, 1)
    assert "Say which modality the queries are of (queries=…, --queries): a or b." in named.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("image.npy", "text.npy", "--images", "photos"), "have none. Give them a column 'id'"),
        (("image.npy", "text.npy", "-o", "photos"), "is a folder"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(folder, options, sentence, monkeypatch):
    monkeypatch.chdir(folder)
    before = everything_in(folder)
    said = refuse("report", *options)
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert everything_in(folder) == before


def test_diagnose_writes_the_page_of_its_own_metrics(folder, tmp_path):
    succeed("diagnose", folder / "image.npy", folder / "text.npy", "--no-umap", "-o", tmp_path)
    written = json.loads((tmp_path / "diagnosis.json").read_text(encoding="utf-8"))
    assert data_of(tmp_path / "report.html")["diagnosis"] == written
