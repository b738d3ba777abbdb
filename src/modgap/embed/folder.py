"""Embed items into a folder of clip-retrieval's layout, shard by shard.

A shard holds the rows of a fixed range of items. Its metadata is written last, so a shard without
metadata was interrupted, and is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from modgap._version import __version__
from modgap.arrays import unit
from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.core.files import atomic_path, write_text
from modgap.core.lazy import pa, pq
from modgap.core.locks import sole_writer_of
from modgap.core.results import Progress, Result, silent, to_json
from modgap.embed.item_batches import embed_each, embed_items
from modgap.embed.model import BATCH, Model
from modgap.embed.opening import open_model
from modgap.engines import Engine, LocalEngine, open_engine
from modgap.io import open_items
from modgap.io.embedded import NOTE, SCHEMA, read_embed_note
from modgap.io.formats.clip_retrieval import EMBEDDED, METADATA, TEXT_METADATA, TEXTS
from modgap.io.formats.npy import open_npy
from modgap.io.items import Items

SHARD_ITEMS = 10_000
DTYPES = ("float32", "float16")
_SKIPPED = b"modgap.skipped"
# Every model embeds this text: other weights under the same name give another row.
PROBE = "a photo of a cat"
_SAME = 0.999
# Items that are named, of those that could not be read.
_NAMED = 3
_WORDS = {
    "n_items": "number of items",
    "items": "set of items",
    "dim": "number of columns",
    "shard_items": "number of items a shard (--shard-items)",
    "dtype": "dtype (--dtype)",
    "normalise": "choice of --normalise",
}


@dataclass(frozen=True)
class EmbeddedFolder(Result):
    """An embedded folder: how many rows each modality has, and which items could not be read."""

    folder: str
    model: str
    dim: int
    rows: Mapping[str, int]
    n_items: int
    has_labels: bool
    n_done_before: int
    skipped: Mapping[str, str] = field(repr=False)

    def lines(self) -> list[str]:
        """How many rows each modality has."""
        return [f"{n:,} {modality} rows of {self.dim} columns" for modality, n in self.rows.items()]

    def notes(self) -> list[str]:
        """What a user should know: items of an earlier run, and items that could not be read."""
        notes = []
        if self.n_done_before:
            notes.append(f"{self.n_done_before:,} of {self.n_items:,} items were there already")
        if self.skipped:
            notes.append(self.skipped_sentence())
        if self.skipped and self.n_done_before:
            notes.append(
                f"what was left out is not tried again; for that, remove {self.folder} first"
            )
        return notes

    def skipped_sentence(self) -> str:
        """How many items could not be read, and the first of them."""
        count, shown = len(self.skipped), list(self.skipped.items())[:_NAMED]
        first = "; ".join(f"{name} ({why})" for name, why in shown)
        more = f"; and {count - _NAMED:,} more, listed in {NOTE}" if count > _NAMED else ""
        return f"{count:,} of {self.n_items:,} items could not be read: {first}{more}"


def check_captioned(data: str | os.PathLike[str], split: str | None = None) -> None:
    """Refuse data that would give the rows of one modality only."""
    items = open_items(data, split=split)
    if len(_modalities(items)) < 2:
        raise InputValueError(
            f"{data} must hold images or sounds with captions, so that there are two modalities, "
            f"but {'it holds texts alone' if items.kind == 'text' else 'it has no captions'}."
        )


def embed(
    model: str | Model,
    data: str | os.PathLike[str] | Items,
    output: str | os.PathLike[str],
    *,
    split: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    images: str | os.PathLike[str] | None = None,
    normalise: bool = False,
    dtype: str = "float32",
    batch_size: int = BATCH,
    shard_items: int = SHARD_ITEMS,
    workers: int | None = None,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    **more: Any,
) -> EmbeddedFolder:
    """Embed images or sounds with their captions, or texts, into a folder of rows and metadata.

    The folder has clip-retrieval's layout; all of modgap reads it. An interrupted run resumes when
    the same call is made again. Items that cannot be read are left out, with their captions, and
    named.

    Parameters
    ----------
    model : str or Model
        As for `open_model`, which takes ``more``.
    data : path or Items
        As for `modgap.io.open_items`, which takes ``split``, ``format`` and ``images``.
    output : path
        The folder.
    normalise : bool
        Rows of unit length. modgap needs none: its corrections normalise by themselves.
    dtype : {"float32", "float16"}
        Of the stored rows.
    batch_size, workers : int
        Items to a batch, and threads that read and prepare them.
    shard_items : int
        Items to a file.
    engine : str or Engine
        Where shards are embedded; see `modgap.engines.open_engine`. Workers open the model and the
        data themselves, so both must be there for each of them, as the folder must.
    progress : callable, optional
        Called as ``progress(what, done, total)`` with the number of items that are done.
    """
    check_choice(dtype, "dtype", DTYPES)
    size, shard = check_count(batch_size, "batch_size"), check_count(shard_items, "shard_items")
    opening: dict[str, Any] = {"split": split, "format": format, "images": images}
    items = data if isinstance(data, Items) else open_items(data, **opening)
    found = open_model(model, **more)
    for modality in _modalities(items):
        found.check_modality(modality)
    plan = Plan.of(found, items, opening, normalise, dtype, shard)
    folder, say, total = Path(output), progress or silent, len(items)
    with sole_writer_of(folder):
        missing = _begin(folder, plan)
        work = _Work(found, items, plan, folder, size, workers)
        done_before = done = total - sum(plan.items_of(number) for number in missing)
        say("embedding", done, total)
        runs = open_engine(engine)
        if isinstance(runs, LocalEngine):
            for number in missing:

                def count(n: int, first: int = done) -> None:
                    say("embedding", first + n, total)

                work.write_shard(number, count)
                done += plan.items_of(number)
        else:
            settings = (plan, folder.absolute(), size, workers)
            job = _Job(partial(_open_work, model, data, opening, more, *settings))
            # What a worker needs to embed as it would here.
            gpus = float(str(more.get("device") or "cuda").startswith("cuda"))
            for number in runs.map(job, missing, gpus=gpus):
                if not _metadata(folder, METADATA, number).is_file():
                    raise InputValueError(
                        f"A worker wrote shard {number}, which is not to be seen from here. "
                        f"{folder} must be on a disk that all workers share."
                    )
                done += plan.items_of(number)
                say("embedding", done, total)
        rows, skipped = work.finish()
    return EmbeddedFolder(
        folder=str(folder),
        model=found.name,
        dim=found.dim,
        rows=rows,
        n_items=total,
        has_labels=items.labels is not None,
        n_done_before=done_before,
        skipped=skipped,
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """How a worker embeds shards: it opens the model and the data itself, once a process."""

    opens: Callable[[], _Work]
    key: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, number: int) -> int:
        if self.key not in _opened:
            _opened.clear()
            _opened[self.key] = self.opens()
        _opened[self.key].write_shard(number, lambda _: None)
        return number


def _open_work(
    model: str | Model,
    data: str | os.PathLike[str] | Items,
    opening: Mapping[str, Any],
    more: Mapping[str, Any],
    *settings: Any,
) -> _Work:
    items = data if isinstance(data, Items) else open_items(data, **opening)
    return _Work(open_model(model, **more), items, *settings)


# The work of the job that this process is at.
_opened: dict[str, _Work] = {}


def _modalities(items: Items) -> tuple[str, ...]:
    if items.kind == "text":
        return ("text",)
    has_captions = any(items.captions(row) for row in range(len(items)))
    return (items.kind, "text") if has_captions else (items.kind,)


@dataclass(frozen=True)
class Plan:
    """Which model embeds which items, and how; a run resumes only where all of it is equal.

    ``items`` is a hash of the names, captions and labels; ``probe`` the row of a fixed text.
    """

    model: str
    dim: int
    temperature: float | None
    modalities: tuple[str, ...]
    source: str
    format: str
    split: str | None
    images: str | None
    n_items: int
    items: str
    shard_items: int
    dtype: str
    normalise: bool
    one_caption_each: bool
    probe: tuple[float, ...]

    @classmethod
    def of(
        cls,
        model: Model,
        items: Items,
        opening: Mapping[str, Any],
        normalise: bool,
        dtype: str,
        shard_items: int,
    ) -> Plan:
        """The plan of a model, and of items that were opened in a certain way."""
        digest = hashlib.sha256()
        for row, name in enumerate(items.names):
            label = None if items.labels is None else items.labels[row]
            digest.update(json.dumps([name, items.captions(row), label]).encode())
        has_text = "text" in model.modalities
        probe = model.encode_texts([PROBE], normalise=True)[0] if has_text else np.zeros(0)
        images = opening["images"]
        return cls(
            model=model.name,
            dim=model.dim,
            temperature=model.temperature,
            modalities=_modalities(items),
            source=os.path.abspath(items.source),
            format=opening["format"] or "",
            split=opening["split"],
            images=None if images is None else os.path.abspath(images),
            n_items=len(items),
            items=digest.hexdigest(),
            shard_items=shard_items,
            dtype=dtype,
            normalise=normalise,
            one_caption_each={len(items.captions(row)) for row in range(len(items))} == {1},
            probe=tuple(float(value) for value in probe),
        )

    @property
    def n_shards(self) -> int:
        """Shards of a finished folder."""
        return -(-self.n_items // self.shard_items)

    def items_of(self, shard: int) -> int:
        """How many items a shard holds."""
        return min(self.shard_items, self.n_items - shard * self.shard_items)

    def save(self, folder: Path, **more: Any) -> None:
        """Write it into the folder, with ``more`` once all is done."""
        document = {"schema": SCHEMA, "version": __version__, **asdict(self), **more}
        write_text(folder / NOTE, to_json(document) + "\n")

    def check_same(self, found: dict[str, Any], folder: Path) -> None:
        """Refuse to resume in a folder of other rows."""
        own = json.loads(to_json(asdict(self)))
        differing = [
            name
            for name, value in own.items()
            if name not in ("source", "images", "probe", "temperature") and value != found.get(name)
        ]
        if differing:
            name = differing[0]
            shown = 12 if name == "items" else None  # of a hash, the beginning
            before, now = (str(one)[:shown] for one in (found.get(name), own[name]))
            raise InputValueError(
                f"{folder} was started with another {_WORDS.get(name, name)} ({before}, now "
                f"{now}). Give another folder with -o, or remove it."
            )
        probe, known = np.asarray(self.probe), np.asarray(found.get("probe") or np.zeros(self.dim))
        same = float(probe @ known) if probe.shape == known.shape else 0.0
        if same < _SAME:
            raise InputValueError(
                f"{folder} was started with other weights of {self.model}: they give another row "
                "for the same text. Give another folder with -o, or remove it."
            )


def _begin(folder: Path, plan: Plan) -> list[int]:
    """Make the folder, or resume in it; returns the shards that are missing."""
    known = read_embed_note(folder)
    if known is None:
        if folder.exists() and any(folder.iterdir()):
            raise InputValueError(
                f"{folder} holds other files, and no {NOTE}. Give a new folder with -o."
            )
        folder.mkdir(parents=True, exist_ok=True)
        plan.save(folder, finished=False)
        return list(range(plan.n_shards))
    plan.check_same(known, folder)
    every = range(plan.n_shards)
    return [number for number in every if not _metadata(folder, METADATA, number).is_file()]


def _metadata(folder: Path, kind: str, number: int) -> Path:
    return folder / kind / f"{kind}_{number}.parquet"


@dataclass(eq=False)
class _Work:
    """One pass over the items of a folder."""

    model: Model
    items: Items
    plan: Plan
    folder: Path
    batch_size: int
    workers: int | None

    def write_shard(self, number: int, count: Callable[[int], None]) -> None:
        """Embed the items of a shard and write its files, the metadata last."""
        first = number * self.plan.shard_items
        rows = range(first, min(first + self.plan.shard_items, len(self.items)))
        skipped: dict[str, str] = {}
        kept = list(rows)
        kind = self.items.kind
        options: dict[str, Any] = {"batch_size": self.batch_size, "workers": self.workers}
        if kind != "text":
            matrix, kept, skipped = embed_items(
                self.model, self.items, rows, count=count, **options
            )
            self._write(EMBEDDED[kind], number, matrix)
        if "text" in self.plan.modalities:
            of_text = [row for row in kept for _ in self.items.captions(row)]
            captions = [text for row in kept for text in self.items.captions(row)]
            every = range(len(captions))
            done = count if kind == "text" else lambda _: None
            texts = embed_each(
                self.model, "text", every, captions.__getitem__, count=done, **options
            )
            self._write(TEXTS, number, texts[0])
            if kind != "text" and not self.plan.one_caption_each:
                names = _strings([self.items.names[row] for row in of_text])
                described = {"image_path": names, "caption": _strings(captions)}
                self._write_table(TEXT_METADATA, number, described)
        self._write_table(METADATA, number, self._described(kept), skipped)
        count(len(rows))

    def _write(self, kind: str, number: int, rows: np.ndarray) -> None:
        rows = unit(rows) if self.plan.normalise and len(rows) else rows
        with np.errstate(over="ignore"):  # refused below, in words
            stored = rows.astype(self.plan.dtype)
        if not np.isfinite(stored).all():
            raise InputValueError(
                f"{kind} has numbers that {self.plan.dtype} cannot hold. Use --dtype float32, or "
                "--normalise."
            )
        with atomic_path(self.folder / kind / f"{kind}_{number}.npy") as path:
            np.save(path, stored)

    def _described(self, kept: Sequence[int]) -> dict[str, Any]:
        """The columns that describe the items of a shard."""
        items = self.items
        columns: dict[str, Any] = {"image_path": [items.names[row] for row in kept]}
        if "text" in self.plan.modalities:
            columns["caption"] = [next(iter(items.captions(row)), "") for row in kept]
        if items.labels is not None:
            columns["label"] = [items.labels[row] for row in kept]
        columns = {name: _strings(values) for name, values in columns.items()}
        return columns | {name: values.take(kept) for name, values in self._fields.items()}

    @cached_property
    def _fields(self) -> dict[str, Any]:
        """The other fields of the source, as columns whose types are the same in every shard."""
        own = ("image_path", "caption", "label")
        fields = {name: values for name, values in self.items.fields.items() if name not in own}
        return {name: _arrow(values) for name, values in fields.items()}

    def _write_table(
        self,
        kind: str,
        number: int,
        columns: Mapping[str, Any],
        skipped: Mapping[str, str] | None = None,
    ) -> None:
        table = pa.table(dict(columns))
        if skipped is not None:
            note = json.dumps(skipped).encode()
            table = table.replace_schema_metadata({_SKIPPED: note})
        with atomic_path(_metadata(self.folder, kind, number)) as path:
            pq.write_table(table, path)

    def finish(self) -> tuple[dict[str, int], dict[str, str]]:
        """Count the rows, collect what was skipped, and say that the folder is whole."""
        skipped: dict[str, str] = {}
        for number in range(self.plan.n_shards):
            note = pq.read_schema(_metadata(self.folder, METADATA, number)).metadata or {}
            skipped |= json.loads(note.get(_SKIPPED, b"{}"))
        rows = {}
        for modality in self.plan.modalities:
            kind = EMBEDDED[modality]
            shards = (self.folder / kind / f"{kind}_{k}.npy" for k in range(self.plan.n_shards))
            rows[modality] = sum(open_npy(path).n_rows for path in shards)
        if not any(rows.values()):
            self._remove()
            first = "".join(f"; the first is {n} ({w})" for n, w in list(skipped.items())[:1])
            raise InputValueError(
                f"None of the {len(self.items)} items of {self.items.source} can be read{first}."
            )
        self.plan.save(self.folder, finished=True, rows=rows, skipped=skipped)
        return rows, skipped

    def _remove(self) -> None:
        """Take away what was written: there is nothing in it, and a new run shall look again."""
        for kind in {EMBEDDED[one] for one in self.plan.modalities} | {METADATA, TEXT_METADATA}:
            for path in (self.folder / kind).glob(f"{kind}_*"):
                path.unlink()
            with suppress(OSError):
                (self.folder / kind).rmdir()
        (self.folder / NOTE).unlink()
        with suppress(OSError):  # other files are in it
            self.folder.rmdir()


def _strings(values: Sequence[str | None]) -> Any:
    """Texts as a column, also where there are none."""
    return pa.array(values, pa.string())


def _arrow(values: Sequence[Any]) -> Any:
    """A column; values of several kinds become texts."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _strings([None if value is None else str(value) for value in values])
