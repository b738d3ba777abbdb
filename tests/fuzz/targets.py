"""What is run on a damaged file, by format, and what must hold of every run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from command_line import Ran, modgap
from fuzz.mutators import mutate
from fuzz.samples import CONFIG, make_base

# What a header may say instead, of those words that a random change would hardly hit.
_KINDS = tuple(
    (old, new)
    for old in (b"<f4", b"'<i8'", b"F32", b"FLOAT")
    for new in (b"<f8", b"|O8", b"'<U100000000'", b"<c16", b"F64", b"I64", b"BF16", b"<M8[s]", b"?")
)
_SHAPES = ((b"(40, 16)", b"(1000000000000, 16)"), (b"(40, 16)", b"(0, 16)"), (b"16", b"1099511627"))
_JSON = ((b"[", b"[" * 100_000), (b'": ', b'": {"a": ' * 2_000), (b"1", b"1e400"), (b"0", b"NaN"))
# The seed of files that are not damaged, which every target must accept.
WHOLE = "whole"


@dataclass(frozen=True)
class Outcome:
    """How a case ended: ``failure`` is empty where the rule holds."""

    accepted: bool
    failure: str = ""


def folder_of(home: Path, case: str) -> Path:
    """Where the files of a case are."""
    return home / case.replace(":", "-")


class Cases:
    """Damaged files by format and seed, each in a folder of its own below ``home``."""

    def __init__(self, home: Path) -> None:
        self.base = home / "base"
        self.base.mkdir(parents=True)
        self.home = home
        self.whole = make_base(self.base)
        self.all = [one for kind in self.whole.values() for one in kind.values()]

    def run(self, case: str) -> Outcome:
        """Run one case, ``format:seed``; its folder is left for who wants to look."""
        name, _, seed = case.partition(":")
        folder = folder_of(self.home, case)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        return TARGETS[name](_Case(self, Random(f"{name}:{seed}"), folder, whole=seed == WHOLE))


@dataclass
class _Case:
    cases: Cases
    rng: Random
    folder: Path
    whole: bool

    @property
    def out(self) -> Path:
        """Where a command writes."""
        return self.folder / "out"

    @property
    def base(self) -> Path:
        """Where whole files are."""
        return self.cases.base

    def damaged(self, kind: str, suffix: str, words: Sequence[tuple[bytes, bytes]] = ()) -> Path:
        """A damaged file of that kind."""
        same = self.cases.whole[kind]
        others = [*same.values(), self.rng.choice(self.cases.all)]
        path = self.folder / f"damaged.{suffix.rpartition('.')[2]}"
        damage = self.rng.getrandbits(64)
        if self.whole:
            path.write_bytes(same[suffix])
        else:
            path.write_bytes(mutate(Random(damage), same[suffix], others, words))
        return path

    def command(self, *words: object) -> Outcome:
        """Run a command and judge it."""
        return judged(modgap(*words), self.out)


def judged(ran: Ran, out: Path) -> Outcome:
    """Whether a run kept the rule: one sentence and nothing written, or finite numbers."""
    said = [line for line in ran.err.splitlines() if not line.startswith("modgap: warning: ")]
    if "Traceback" in ran.err:
        return Outcome(False, f"traceback: {said[-1]}")
    if ran.status not in (0, 2):
        return Outcome(False, f"exit {ran.status}: {said[-1] if said else ''}")
    written = sorted(path for path in out.rglob("*") if path.is_file())
    if ran.status == 2:
        said = [line for line in said if not line.startswith("modgap: rows are paired")]
        if len(said) != 1 or not said[0].startswith("modgap: "):
            return Outcome(False, f"{len(said)} lines for one error: {said[:3]}")
        return Outcome(False, f"refused, yet wrote {written[0].name}" if written else "")
    for path in written:
        if wrong := not_finite(path):
            return Outcome(True, f"{path.name} has {wrong}")
    if re.search(r"\b(NaN|-?Infinity|nan|-?inf)\b", ran.out):
        return Outcome(True, "NaN or infinity on stdout")
    return Outcome(True)


def not_finite(path: Path) -> str:
    """What a file holds that is no finite number; empty where all are."""
    if path.suffix == ".json":
        constants: list[str] = []
        json.loads(path.read_text(encoding="utf-8"), parse_constant=constants.append)
        return constants[0] if constants else ""
    bad = [
        name
        for name, array in _arrays_of(path)
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]
    return f"NaN or infinity in {bad[0]}" if bad else ""


def _arrays_of(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    if path.suffix in (".npy", ".npz"):
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            yield from [("rows", found)] if isinstance(found, np.ndarray) else found.items()
    elif path.suffix == ".safetensors":
        yield from load_file(path).items()
    elif path.suffix == ".parquet":
        yield from zip(*_columns(path), strict=True)


def _columns(path: Path) -> tuple[list[str], list[np.ndarray]]:
    table = pq.read_table(path)
    columns = [column.combine_chunks() for column in table.columns]
    flat = [one.flatten() if hasattr(one, "flatten") else one for one in columns]
    return table.column_names, [one.to_numpy(zero_copy_only=False) for one in flat]


def _embeddings(suffix: str) -> Callable[[_Case], Outcome]:
    # Ids and captions come along, where the format can hold them.
    writes = ("npz", "parquet") if suffix in ("npz", "parquet") else ("npy", "safetensors", "npz")

    def target(case: _Case) -> Outcome:
        words = (*_KINDS, *_SHAPES, *_JSON)
        stacked = suffix == "npy" and case.rng.random() < 0.2
        file = case.damaged("embeddings", "stacked" if stacked else suffix, words)
        if stacked:
            file = file.rename(file.with_suffix(".npy"))
            return case.command("measure", file, "--json")
        if case.rng.random() < 0.7:
            correction = case.base / case.rng.choice(("shift.safetensors", "whiten.safetensors"))
            return case.command(
                "apply", correction, file, "--modality", "image", "--trust-rows",
                "-o", case.out / f"rows.{case.rng.choice(writes)}",
                "--dtype", case.rng.choice(("float16", "float32", "float64")),
            )  # fmt: skip
        return case.command("measure", file, case.base / "text.npy", "--json")

    return target


def corrections(case: _Case) -> Outcome:
    """A damaged correction, on rows that are whole."""
    method = case.rng.choice(list(case.cases.whole["corrections"]))
    file = case.damaged("corrections", method, (*_KINDS, *_JSON)).rename(
        case.folder / "damaged.safetensors"
    )
    rows = case.base / "image.npy", case.base / "text.npy"
    if case.rng.random() < 0.2:
        return case.command("evaluate", *rows, "--correction", file, "--json")
    role = case.rng.choice(("document", "query"))
    return case.command(
        "apply", file, rows[1], "--modality", "text", "--role", role, "--trust-rows",
        "-o", case.out / "rows.npy",
    )  # fmt: skip


def groups(case: _Case) -> Outcome:
    """Damaged labels of one side."""
    kind = case.rng.choice(list(case.cases.whole["groups"]))
    file = case.damaged("groups", kind, (*_KINDS, *_SHAPES, *_JSON))
    labels = f"{case.base / 'groups.npy'},{file}"
    rows = case.base / "image.npy", case.base / "text.npy"
    return case.command("fit", *rows, "--groups", labels, "-o", case.out / "c.safetensors")


def pictures(case: _Case) -> Outcome:
    """Twenty damaged images through the readers of thumbnails and of training."""
    from modgap.io.images import ImageError
    from modgap.reports.rows import shrink
    from modgap.train.images import decode_image

    accepted = False
    for _ in range(20):
        kind = case.rng.choice(list(case.cases.whole["images"]))
        stored = case.damaged("images", kind).read_bytes()
        for read in (shrink, lambda one: decode_image(one, 16)):
            try:
                read(stored)
                accepted = True
            except ImageError as error:
                if "\n" in str(error):
                    return Outcome(False, f"more than one line for {kind}: {error}")
            except Exception as error:
                return Outcome(False, f"{type(error).__name__} escaped for {kind}: {error}")
    return Outcome(accepted)


def report(case: _Case) -> Outcome:
    """A page with a folder of damaged images."""
    folder = case.folder / "images"
    folder.mkdir()
    kinds = list(case.cases.whole["images"])
    names = [f"{place}.{case.rng.choice(('jpg', 'png', 'gif'))}" for place in range(40)]
    for name in names:
        case.damaged("images", case.rng.choice(kinds)).rename(folder / name)
    rows = np.load(case.base / "image.npy")
    listed = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), rows.shape[1])
    pq.write_table(pa.table({"embedding": listed, "id": names}), case.folder / "image.parquet")
    return case.command(
        "report", case.folder / "image.parquet", case.base / "text.npy", "--images", folder,
        "--no-umap", "-o", case.out / "page.html", "--json",
    )  # fmt: skip


def _captions(suffix: str) -> Callable[[_Case], Outcome]:
    def target(case: _Case) -> Outcome:
        file = case.damaged("captions", suffix, (*_JSON, *_KINDS))
        config = case.folder / "config.toml"
        config.write_text(CONFIG.format(data=file), encoding="utf-8")
        if suffix in ("json", "csv"):
            (case.folder / "images").symlink_to(case.base / "photos")
        return _train(case, config)

    return target


def configs(case: _Case) -> Outcome:
    """A damaged config of a training run."""
    return _train(case, case.damaged("configs", "toml"))


def _train(case: _Case, config: Path) -> Outcome:
    # One step of few rows, whatever a damaged config says: a long run is no failure.
    return case.command(
        "train", config, "-o", case.out, "--json", "--set", "train.steps=1",
        "--set", "data.image_size=16", "--set", "train.threads=1", "--set", "train.device=cpu",
    )  # fmt: skip


TARGETS: dict[str, Callable[[_Case], Outcome]] = {
    **{name: _embeddings(name) for name in ("npy", "npz", "safetensors", "pt", "parquet")},
    "corrections": corrections,
    "groups": groups,
    "images": pictures,
    "coco": _captions("json"),
    "csv": _captions("csv"),
    "tar": _captions("tar"),
    "captions": _captions("parquet"),
    "config": configs,
    "report": report,
}
# How often each is drawn: those that take seconds less often than those that take none.
SHARES: dict[str, int] = {**dict.fromkeys(TARGETS, 4), "images": 8, "report": 1}
