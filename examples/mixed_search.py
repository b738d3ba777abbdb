"""One pgvector table for images and texts: from two files of vectors to what a text finds.

    python examples/mixed_search.py
    python examples/mixed_search.py image.npy text.npy postgresql://user:password@host/database

Without arguments it uses the digits that come with modgap and starts a PostgreSQL of its own
(pip install 'modgap[pgvector]' pgserver). It fits a calibration, stores both modalities in one
table, and searches it with a text; for comparison also without the correction.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import modgap
from modgap.corrections import Calibrate, Correction
from modgap.index import open_index
from modgap.io import open_embeddings
from modgap.search import Hits


def main(image_path: Path, text_path: Path, url: str, row: int = 0) -> dict[str, Hits]:
    """Store both files in one table, search it with a text, and remove it again."""
    images, texts = open_embeddings(image_path), open_embeddings(text_path)
    correction = Calibrate().fit(images.rows(), texts.rows()).correction_
    raw = Correction.identity(images.dim, metric="cosine")
    found = {}
    for title, maps in (("as they are", raw), ("calibrated", correction)):
        # A real table stays; this one makes room for the next run.
        with open_index(url, maps, create=True, replace=True, table="mixed_search") as index:
            index.write(images, "image")
            index.write(texts, "text")
            index.finish()
            print(f"\nVectors {title}: {index.count():,} documents in one table")
            hits = index.search(texts.take([row]), "text", k=8)
            print(f"  text {row} finds  {listed(hits)}")
            found[title] = hits
            index.drop()
    return found


def listed(hits: Hits) -> str:
    """The results of the first query in a line."""
    pairs = zip(hits.modalities[0], hits.ids[0], strict=True)
    return "  ".join(f"{name} {key}" for name, key in pairs)


def digits(folder: Path) -> tuple[Path, Path]:
    """Two files of vectors: 1,000 scans of digits and one caption of each."""
    data = modgap.load_digits()
    paths = folder / "image.npy", folder / "text.npy"
    np.save(paths[0], data.X)
    np.save(paths[1], data.Y[data.wording == 0])
    return paths


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A PostgreSQL with pgvector for as long as the block lasts."""
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))  # where pgserver keeps its locks
    import pgserver

    server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 1:
        with tempfile.TemporaryDirectory() as name, postgres(Path(name)) as own:
            main(*digits(Path(name)), own)
    else:
        sys.exit(__doc__)
