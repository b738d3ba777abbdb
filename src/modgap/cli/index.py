"""``modgap index``: one index of all modalities, built, searched and checked."""

from __future__ import annotations

import typer

from modgap.cli.described import described
from modgap.cli.index_build import index_build
from modgap.cli.index_change import index_add, index_delete, index_drop
from modgap.cli.index_evaluate import index_evaluate
from modgap.cli.index_search import index_search
from modgap.cli.index_status import index_status
from modgap.cli.kept_inputs import keeps_inputs
from modgap.core.checks import InputValueError

CORRECTED = "embedding_corrected"

index_app = typer.Typer(
    name="index",
    help="Build, change, search and check one index of all modalities, corrected. Searches "
    "are exact by default. Graphs are optional; each modality has its own.",
    epilog="Example: modgap index build both.faiss correction.safetensors image=image.npy "
    "text=text.npy --factory HNSW32,Flat",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def index_drop_column(
    address: str,
    table: str | None = None,
    new_column: str | None = None,
) -> None:
    """Undo build --from-column, or apply --into: drop the corrected column of a table you have.

    Example: modgap index drop-column postgresql://localhost/search --table items
    """
    from modgap.cli.show import say
    from modgap.index import drop_column

    if address.rstrip("/").endswith(".lance"):
        from modgap.engines import drop_corrected_column

        new_column = new_column or CORRECTED
        drop_corrected_column(address, new_column)
        say(f"dropped the column {new_column} of {address}")
        return
    if table is None:
        raise InputValueError("Say with --table which table the column is in.")
    new_column = drop_column(address, table, new_column)
    say(f"dropped the column {new_column} of {table}")


index_app.command("build")(keeps_inputs(described(index_build, "index build"), "address"))
index_app.command("add")(keeps_inputs(described(index_add, "index add"), "address"))
index_app.command("delete")(keeps_inputs(described(index_delete, "index delete"), "address"))
index_app.command("drop")(described(index_drop, "index drop"))
index_app.command("search")(described(index_search, "index search"))
index_app.command("evaluate")(described(index_evaluate, "index evaluate"))
index_app.command("status")(keeps_inputs(described(index_status, "index status"), "left"))
index_app.command("drop-column")(described(index_drop_column, "index drop-column"))
