"""Opens the shards of a dataset in parallel; bad ones are named, or left out on request."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from modgap.core.checks import InputError, InputValueError, check_choice
from modgap.core.threads import ahead
from modgap.io._contents import Contents

if TYPE_CHECKING:
    from modgap.io.manifest import Manifest, Shard

BadShards = Literal["refuse", "skip"]
_OPENED_AT_ONCE = 8
_MOST_NAMED = 3


class BadShardsWarning(UserWarning):
    """Shards were left out because they cannot be used."""


@dataclass(eq=False)
class ShardOpener:
    """Opens the shards of one dataset, and remembers the bad ones.

    ``skip`` leaves bad shards out, so each is read through once before any row is used. ``without``
    has the keys of shards that are bad in another modality; the others were ``looked_through``
    already. A key is what the files of a shard have in common, mostly the number in their names.
    """

    skip: bool = False
    without: frozenset[str] = frozenset()
    looked_through: bool = False
    keys: list[str] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _stated: dict[str, Shard] = field(default_factory=dict)

    @classmethod
    def of(cls, bad_shards: BadShards) -> ShardOpener:
        """As the option of that name says."""
        check_choice(bad_shards, "bad_shards", ("refuse", "skip"))
        return cls(skip=bad_shards == "skip")

    def compare(self, folder: Any, manifest: Manifest, files: Mapping[str, Any]) -> None:
        """Shards must be as a manifest says: none missing, none that it does not name."""
        self._stated = {str(folder / shard.path): shard for shard in manifest.shards}
        wrong = manifest.problems(files)
        if wrong and not self.skip:
            raise InputValueError(
                f"{folder} is not what its manifest says: {next(iter(wrong.values()))}"
                f"{f', and {len(wrong) - 1} more' if len(wrong) > 1 else ''}. Get the shards that "
                f"are missing, or make it anew: modgap manifest {folder}"
            )
        for shard in manifest.shards:
            if shard.path in wrong:
                path = PurePosixPath(shard.path)
                every = (PurePosixPath(one.path) for one in manifest.shards)
                beside = [p for p in every if (p.parent, p.suffix) == (path.parent, path.suffix)]
                key = _keys([p.stem for p in beside])[beside.index(path)]
                self.bad[key], self._rows[key] = wrong[shard.path], shard.rows

    def open_each(
        self, paths: Sequence[Any], open_one: Callable[[Any], Contents]
    ) -> dict[str, Contents]:
        """The contents of each file by the key of its shard; shards that are left out are missing.

        With ``skip`` a shard must hold what most do.
        """
        keys = _keys([path.stem for path in paths])
        self.keys += [key for key in keys if key not in self.keys]

        def opened(path: Any) -> Contents | InputError:
            try:
                self.check_stated(path)
                found = open_one(path)
                if self.skip and not self._stated and not self.looked_through:
                    found.look_through()
            except InputError as error:
                if not self.skip:
                    raise
                return error
            return found

        wanted = {k: p for k, p in zip(keys, paths, strict=True) if k not in self.without}
        some = min(len(wanted), _OPENED_AT_ONCE)
        results = ahead(opened, wanted.values(), some) if some > 1 else map(opened, wanted.values())
        found: dict[str, Contents] = {}
        for (key, path), held in zip(wanted.items(), results, strict=True):
            if isinstance(held, Contents):
                found[key] = held
                self._rows.setdefault(key, held.n_rows)
                continue
            self.bad.setdefault(key, str(held))
            stated = self._stated.get(str(path))
            if stated is not None:
                self._rows.setdefault(key, stated.rows)
        filled = {key: _names_and_widths(held) for key, held in found.items() if held.n_rows}
        if self.skip and filled:
            most = Counter(filled.values()).most_common(1)[0][0]
            for key, names in filled.items():
                if not most <= names:
                    self.bad.setdefault(key, f"shard {key} has other columns than most")
                    del found[key]
        return found

    def joined(
        self, paths: Sequence[Any], open_one: Callable[[Any], Contents], source: Any
    ) -> Contents:
        """Shards read one after the other; refused where none can be used."""
        found = self.open_each(paths, open_one)
        self.refuse_none(found, source)
        return Contents.joined(found.values(), source)

    def check_stated(self, path: Any) -> None:
        """A file must be as the manifest says, if there is one; its checksum where bad is left."""
        if not self._stated:
            return
        stated, read = self._stated.get(str(path)), self.skip and not self.looked_through
        unknown = f"{path} is not named in the manifest"
        wrong = unknown if stated is None else stated.differs(path, read=read)
        if wrong is not None:
            raise InputValueError(f"{wrong}. Get it again, or make the manifest anew.")

    def together(self, sides: Mapping[str, dict[str, Contents]], source: Any) -> None:
        """Shards of several sides go together: with ``skip`` one that is bad leaves all of them."""
        every = dict.fromkeys(key for side in sides.values() for key in side)
        common = set.intersection(*({*side} for side in sides.values()))
        differs: dict[str, str] = {}
        for key in every:
            counts = {name: side[key].n_rows for name, side in sides.items() if key in side}
            missing = [name for name in sides if name not in counts]
            if missing:
                differs[key] = f"shard {key} of {missing[0]} is missing"
            elif len(set(counts.values())) > 1:
                said = ", ".join(f"{name} has {count}" for name, count in counts.items())
                differs[key] = f"shard {key} must have the same rows, but {said}"
        if self.skip and 2 * len(common) >= len(every):  # else they are cut in different ways
            self.bad = {**differs, **self.bad}
            for side in sides.values():
                for key in self.bad:
                    side.pop(key, None)
        self.refuse_none(all(sides.values()), source)
        totals = {n: sum(one.n_rows for one in side.values()) for n, side in sides.items()}
        if len(set(totals.values())) > 1:
            said = ", ".join(f"{name} has {count}" for name, count in totals.items())
            first = next(iter(differs.values()), "a shard may be missing")
            raise InputValueError(
                f"The parts of {source} must have the same number of rows, but {said}. "
                f"{first[0].upper()}{first[1:]}."
            )

    @classmethod
    def merged(cls, some: Iterable[ShardOpener]) -> ShardOpener:
        """What was left out of several datasets whose shards go together."""
        found = cls(skip=True)
        for one in some:
            found.keys += [key for key in one.keys if key not in found.keys]
            found.bad = {**one.bad, **found.bad}
            found._rows = {**one._rows, **found._rows}
        return found

    def refuse_none(self, left: object, source: Any) -> None:
        """Refuse a dataset of which no shard is left."""
        if not left and self.bad:
            why = next(iter(self.bad.values())).rstrip(".")
            raise InputValueError(f"No shard of {source} can be used: {why}.")

    def warn(self, source: Any) -> None:
        """Say once what was left out."""
        if not self.bad:
            return
        known = [self._rows[key] for key in self.bad if key in self._rows]
        unknown = len(self.bad) - len(known)
        rows = f"{sum(known):,} rows are missing"
        if unknown:
            rows += f", and those of {unknown} whose number is not known"
        reasons = [why.partition(". ")[0].rstrip(".") for why in self.bad.values()]
        said = "; ".join(reasons[:_MOST_NAMED])
        more = f"; and {len(self.bad) - _MOST_NAMED} more" if len(self.bad) > _MOST_NAMED else ""
        total = len({*self.keys, *self.bad})
        warnings.warn(
            BadShardsWarning(
                f"{len(self.bad)} of {total} shards of {source} are left out: {rows} "
                f"({said}{more})."
            ),
            stacklevel=3,
        )


def _names_and_widths(contents: Contents) -> frozenset:
    widths = {name: matrix.shape[1:] for name, matrix in contents.matrices.items()}
    return frozenset({**dict.fromkeys(contents.columns), **widths}.items())


def natural_key(name: str) -> list[tuple[int, str]]:
    """A key that sorts numbers inside names by their value.

    >>> sorted(["e_10.npy", "e_9.npy"], key=natural_key)
    ['e_9.npy', 'e_10.npy']
    """
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def in_order(folder: Any, suffix: str) -> list[Any]:
    """The files of a folder with that suffix, `part_2` before `part_10`; hidden ones left out."""
    paths = [p for p in folder.glob(f"*{suffix}") if p.is_file() and not p.name.startswith(".")]
    return sorted(paths, key=lambda path: natural_key(path.name))


def _keys(stems: Sequence[str]) -> list[str]:
    """What tells shards apart, the same for the files of other modalities: a number, if one does.

    >>> _keys(["img_emb_0", "img_emb_10"]), _keys(["part-0-c7", "part-1-c7"]), _keys(["a", "b"])
    (['0', '10'], ['0', '1'], ['a', 'b'])
    """
    numbers = [re.findall(r"\d+", stem) for stem in stems]
    for place in (-1, 0):
        found = [
            str(int(own[place])) if own else stem for own, stem in zip(numbers, stems, strict=True)
        ]
        if len(set(found)) == len(found):
            return found
    return list(stems)
