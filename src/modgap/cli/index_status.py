"""``modgap index status``: what an index holds, and how far documents have moved to a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modgap.cli.options import refuse


def index_status(
    address: str,
    correction: Path,
    new_index: str | None = None,
    left: Path | None = None,
    table: str | None = None,
    new_table: str | None = None,
    vector_column: str | None = None,
    modality_column: str | None = None,
    id_column: str | None = None,
    trust: bool = False,
    as_json: bool = False,
) -> None:
    """Say what an index holds; with --new-index, which share of its documents that holds already.

    Example: modgap index status both.faiss moving --new-index new.faiss --left left.txt
    """
    from modgap.cli.outputs import check_file
    from modgap.cli.show import out, print_json, print_result, say
    from modgap.core.files import write_text
    from modgap.core.results import document
    from modgap.corrections import load_corrections
    from modgap.index import open_generations, open_index
    from modgap.index.generations import Moved

    own: dict[str, Any] = {
        "table": table, "column": vector_column, "modality_column": modality_column,
        "id_column": id_column,
    }  # fmt: skip
    if new_index is None:
        refuse(left or new_table, "--left and --new-table belong to --new-index.")
        with open_index(address, load_corrections(correction), trust=trust, **own) as index:
            if as_json:
                held = {name: index.count(name) for name in index.names}
                print_json(document("index_status", Moved(held, {}, {})))
            for line in () if as_json else index.demands():
                out.print(line, markup=False, soft_wrap=True)
        return
    if left is not None:
        check_file(left)
    with open_generations(
        correction, address, new_index, trust=trust, old_options=own,
        new_options={"table": new_table},
    ) as both:  # fmt: skip
        found = both.moved()
        print_result("index_status", found, as_json)
        if left is not None:
            names = both.old.names
            lines = [f"{name}\t{one}\n" for name in names for one in both.left(name)]
            write_text(left, "".join(lines))
            say(f"wrote {left}: {len(lines):,} documents that have not moved")
