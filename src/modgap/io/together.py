"""Several modalities whose shards go together: bad in one, they are left out of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modgap._validate import InputValueError
from modgap.io._contents import Contents
from modgap.io._shards import BadShards, ShardOpener
from modgap.io.column_roles import companions
from modgap.io.file_formats import open_with
from modgap.io.formats.tables import is_opened


def open_together(given: Mapping[str, Any], bad_shards: BadShards) -> dict[str, Contents]:
    """What several modalities hold, those that have to be opened.

    A shard that is bad in one of them is left out of all, so that pairs stay pairs.
    """
    paths = {name: one for name, one in given.items() if is_opened(one)}
    openings = {name: ShardOpener.of(bad_shards) for name in paths}
    found = {name: open_with(one, name, openings[name]) for name, one in paths.items()}
    every = ShardOpener.merged(openings.values())
    if not every.bad or len(paths) == 1:
        for name, opening in openings.items():
            opening.warn(found[name].path)
        return found
    if not all(every.has_keys_of(opening) for opening in openings.values()):
        _refuse_without_ids(found)
    else:
        bad = frozenset(every.bad)
        for name, opening in openings.items():
            if {*opening.bad} != bad:
                again = ShardOpener(skip=True, without=bad, looked_through=True)
                found[name] = open_with(paths[name], name, again)
    every.warn(" and ".join(str(contents.path) for contents in found.values()))
    return found


def _refuse_without_ids(found: Mapping[str, Contents]) -> None:
    """Rows of shards that are cut in different ways stay pairs only by their ids."""
    for contents in found.values():
        n_rows = max((matrix.shape[0] for matrix in contents.matrices.values()), default=0)
        if "ids" not in companions(contents.columns, n_rows):
            raise InputValueError(
                f"Shards of {' or '.join(str(one.path) for one in found.values())} are bad, and "
                "the files of the others do not say which rows belong to them: they have other "
                "numbers, and no ids. Leave the same rows out of all yourself."
            )
