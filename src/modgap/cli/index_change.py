"""``modgap index add``, ``delete`` and ``drop``: documents come and go, and the whole index."""

from __future__ import annotations

from pathlib import Path

from modgap.cli.named import groups_by_name
from modgap.core.checks import InputValueError


def index_add(
    address: str,
    correction: Path,
    documents: list[str] | None = None,
    upsert: bool = False,
    table: str | None = None,
    column: str | None = None,
    batch: int | None = None,
    groups: str | None = None,
    ids: str | None = None,
    trust_rows: bool = False,
    trust: bool = False,
) -> None:
    """Add documents to an index, or with --upsert replace those whose ids are stored.

    Files hold vectors as the model gives them. The index can be searched meanwhile; what was
    interrupted or killed is run again with the same command and finishes. With a correction that
    was extended by a modality (modgap fit --extend), it takes documents of that too.

    Example: modgap index add both.faiss correction.safetensors image=new.npy

    Example: modgap index add both.faiss correction.safetensors text=new.parquet --upsert
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.corrections import load_corrections
    from modgap.index import open_documents, open_index
    from modgap.index.documents import stored_lines

    fixed = load_corrections(correction)
    first = next(iter(fixed.values()))
    labels = groups_by_name(groups, first.names)
    called = groups_by_name(ids, first.names, "--ids")
    sources = open_documents(documents or [], first, column=column, groups=labels, ids=called)
    opened = open_index(address, fixed, trust=trust, table=table, batch_rows=batch)
    with opened as index, steps() as step:
        stored = index.write_all(sources, step, upsert=upsert, trust_rows=trust_rows)
        index.finish()
        said = [*stored_lines(sources, stored), *index.holdings()]
    for line in said:
        say(line)


def index_delete(
    address: str,
    correction: Path,
    documents: list[str],
    table: str | None = None,
    batch: int | None = None,
    trust: bool = False,
) -> None:
    """Delete documents of an index by their ids; ids that are not there change nothing.

    Example: modgap index delete both.faiss correction.safetensors image=17 text=17

    Example: modgap index delete both.faiss correction.safetensors image=@old-ids.txt
    """
    from modgap.cli.show import say
    from modgap.corrections import load_corrections
    from modgap.index import open_index

    given = _ids_by_name(documents)
    fixed = load_corrections(correction)
    with open_index(address, fixed, trust=trust, table=table, batch_rows=batch) as index:
        named = {name: index.ids_of_texts(texts, name) for name, texts in given.items()}
        for name, ids in named.items():
            say(f"deleted {index.delete(ids, name):,} of {len(ids):,} ids of {name}")
        index.finish()
        for line in index.holdings():
            say(line)


def index_drop(
    address: str,
    correction: Path,
    table: str | None = None,
    trust: bool = False,
) -> None:
    """Remove an index that modgap built, with all its documents; files of rows stay.

    Example: modgap index drop both.faiss correction.safetensors
    """
    from modgap.cli.show import say
    from modgap.corrections import load_corrections
    from modgap.index import open_index

    fixed = load_corrections(correction)
    with open_index(address, fixed, trust=trust, table=table) as index:
        n_documents = index.count()
        index.drop()
        say(f"removed {index.place}, which held {n_documents:,} documents")


def _ids_by_name(given: list[str]) -> dict[str, list[str]]:
    """The ids of each modality, of MODALITY=ID and MODALITY=@FILE texts, each once."""
    from modgap.io.group_labels import read_labels

    found: dict[str, list[str]] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not value:
            raise InputValueError(
                f"Documents are given as MODALITY=ID or MODALITY=@FILE, such as image=17, got "
                f"{text!r}."
            )
        ids = read_labels(Path(value[1:])).tolist() if value.startswith("@") else [value]
        found.setdefault(name, []).extend(map(str, ids))
    return {name: [*dict.fromkeys(ids)] for name, ids in found.items()}
