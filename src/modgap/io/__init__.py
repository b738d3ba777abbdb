"""Open and write embeddings: files, folders, tables and URLs, read in batches."""

from modgap.io._shards import BadShardsWarning
from modgap.io.embeddings import Embeddings
from modgap.io.formats.clip_retrieval import write_clip_retrieval
from modgap.io.fusing import fuse
from modgap.io.id_matches import PairingWarning
from modgap.io.items import Items, open_items
from modgap.io.manifest import Manifest, Shard, write_manifest
from modgap.io.modalities import Modalities, Thumbnail
from modgap.io.opened_sides import open_modality
from modgap.io.opening import from_table, open_embeddings, open_modalities, open_pair, open_queries
from modgap.io.writing import write_embeddings, write_pair, write_vectors

__all__ = [
    "BadShardsWarning",
    "Embeddings",
    "Items",
    "Manifest",
    "Modalities",
    "PairingWarning",
    "Shard",
    "Thumbnail",
    "from_table",
    "fuse",
    "open_embeddings",
    "open_items",
    "open_modalities",
    "open_modality",
    "open_pair",
    "open_queries",
    "write_clip_retrieval",
    "write_embeddings",
    "write_manifest",
    "write_pair",
    "write_vectors",
]
