"""Options that the commands of ``modgap index`` share; their words are in options.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from modgap.cli.described import option

CORRECTED = "embedding_corrected"

Address = Annotated[str, option("address", "index")]
CorrectionFile = Annotated[Path, option("correction", "index")]
Documents = Annotated[list[str] | None, option("documents", "index")]
Table = Annotated[str | None, option("table", "index")]
Column = Annotated[str | None, option("column", "index")]
Groups = Annotated[str | None, option("groups", "index")]
Ids = Annotated[str | None, option("ids", "index")]
Batch = Annotated[int | None, option("batch", "index")]
EfSearch = Annotated[int | None, option("ef_search", "index")]
Nprobe = Annotated[int | None, option("nprobe", "index")]
NewIndex = Annotated[str | None, option("new_index", "index")]
NewTable = Annotated[str | None, option("new_table", "index")]
VectorColumn = Annotated[str | None, option("vector_column", "index")]
ModalityColumn = Annotated[str | None, option("modality_column", "index")]
IdColumn = Annotated[str | None, option("id_column", "index")]
Trust = Annotated[bool, option("trust", "index")]
