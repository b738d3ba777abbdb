"""Options that the commands of ``modgap index`` share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

yours_option = partial(typer.Option, rich_help_panel="A table you have")
CORRECTED = "embedding_corrected"

Address = Annotated[
    str,
    typer.Argument(
        metavar="INDEX",
        help="x.faiss, x.lance, postgresql://…, qdrant:FOLDER, qdrant+http://…, milvus:FILE.db or "
        "milvus+http://….",
    ),
]
CorrectionFile = Annotated[
    Path,
    typer.Argument(
        metavar="CORRECTION",
        help="The file that fit or diagnose wrote; or a folder of several, correction-text"
        ".safetensors and so on.",
    ),
]
Documents = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODALITY=PATH]...",
        help="Embeddings of each modality, such as image=image.npy; or one file of two.",
    ),
]
Table = Annotated[
    str | None, typer.Option(help="Table or collection of the database; modgap if left out.")
]
Column = Annotated[str | None, typer.Option(help="Array or column of the files to read.")]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Labels of the documents, where the correction has hubs and was fitted with labels: a "
        "column of every file, or image=LABELS,text=LABELS, a column or a file for each. Columns "
        "called group are found without it."
    ),
]
EfSearch = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Search HNSW graphs, one for each modality, with this ef_search (pgvector, LanceDB, "
        "Qdrant, FAISS), such as 64. Without it searches are exact; FAISS graphs take 64, "
        "96 with hubs.",
    ),
]
Nprobe = Annotated[
    int | None,
    typer.Option(
        min=1, help="Search this many cells of an IVF index (FAISS); FAISS's default without it."
    ),
]
VectorColumn = Annotated[
    str | None,
    yours_option(help="Search this column of a table you have (PostgreSQL, see build)."),
]
ModalityColumn = Annotated[
    str | None,
    yours_option(help="Its column of modalities; modality if left out."),
]
IdColumn = Annotated[str | None, yours_option(help="Its column of ids; id if left out.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Open a folder of Qdrant's embedded mode that is there already: it holds pickles, "
        "which can run any code.",
    ),
]
