"""Photos and captions of Flickr8k to a corrected index that is searched in words, and to a page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from command_line import modgap
from conftest import PUBLISHED
from modgap.io import open_pair
from training import bars_config

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("faiss", reason="faiss is not installed")

from modgap.train import train

PHOTOS = PUBLISHED.parent / "flickr8k" / "flickr8k-112.parquet"
N_TEST = 24


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """A few photos to train on, and a few to search."""
    if not PHOTOS.is_file():
        pytest.skip("the photos of Flickr8k are not at hand")
    table = pq.read_table(PHOTOS)
    parts = [
        table.filter(pc.equal(table["split"], split)).slice(0, n)
        for split, n in (("train", 40), ("test", N_TEST))
    ]
    path = tmp_path_factory.mktemp("photos") / "photos.parquet"
    pq.write_table(pa.concat_tables(parts), path)
    return path


# A model that saw forty photos once tells no pair from another.
@pytest.mark.filterwarnings("ignore:The image and text rows look unpaired")
def test_from_photos_to_answers_and_a_page(photos, tmp_path):
    train(bars_config(photos, train={"epochs": 1}), output=tmp_path / "run")
    fixed = tmp_path / "fixed"
    done = modgap("fix", "--model", f"run:{tmp_path / 'run'}", "--data", photos, "--split", "test",
                  "-o", fixed, "--trust-pairs")  # fmt: skip
    assert done.status == 0, done.err
    rows = open_pair(tmp_path / "fixed-rows")
    assert (rows.x.n_rows, rows.y.n_rows) == (N_TEST, 5 * N_TEST)
    search = ("index", "search", tmp_path / "fixed.faiss", fixed / "correction.safetensors",
              "--text", rows.y.captions[7], "-k", "3", "--json")  # fmt: skip
    texts = modgap(*search, "--only", "text").json["ids"][0]
    assert texts[0] == rows.y.ids[7]
    images = modgap(*search, "--only", "image").json["ids"][0]
    assert set(images) < set(rows.x.ids.tolist())
    page = tmp_path / "report.html"
    assert (
        modgap(
            "report", tmp_path / "fixed-rows", "--images", photos, "-o", page, "--no-umap"
        ).status
        == 0
    )
    html = page.read_text(encoding="utf-8")
    assert html.count("data:image/jpeg;base64") >= N_TEST
    assert "images could not be read" not in html
