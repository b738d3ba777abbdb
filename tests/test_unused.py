"""What vulture finds unused in the source is gone, documented, or has its reason here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import modgap

vulture = pytest.importorskip("vulture", reason="vulture is not installed")

SOURCE = Path(modgap.__file__).parent
# Typer, FastAPI, singledispatch and the papers' tables call what they decorate.
DECORATORS = ["@PAPER.*", "@*.command*", "@*.callback*", "@*.register", "@*.get", "@*.post"]
DECORATORS += ["@*.delete", "@*.exception_handler", "@*.middleware"]

REASONS = {
    "read by the library whose object it is set on": (
        "_fc do_normalize greater_is_better min_points_per_centroid niter normalizer "
        "post_processor pre_tokenizer primary_metric qb writeable showwarning __signature__ "
        "__annotations__"
    ),
    "called by the library whose class it belongs to": (
        "render list_commands readable seekable get_extra_state set_extra_state on_train_begin "
        "on_train_start on_train_batch_end on_step_end on_evaluate extra_repr supported_spaces "
        "is_legacy _get_query_embedding _aget_query_embedding _get_text_embedding "
        "_aget_text_embedding _get_image_embedding _aget_image_embedding"
    ),
    "given by the library that calls the function": "batch_idx output_path",
    "the key of a cache": "n_modules",
    "found by the name of its store": (
        "ChromaIndex DuckdbIndex LanceIndex MilvusIndex PgvectorIndex QdrantIndex SqliteIndex"
    ),
    "the formula of SigmoidLoss, for a loop of one's own": "sigmoid_contrastive",
    "NDCG by the modality that is sought, for benchmarks": "ndcg_of",
}


def test_what_nothing_uses_is_documented_or_has_a_reason():
    found = vulture.Vulture(ignore_decorators=DECORATORS)
    found.scavenge([SOURCE])
    # Fields of results and models are read as JSON, by tables and by users.
    unused = {
        item.name: f"{item.filename.relative_to(SOURCE)}:{item.first_lineno} {item.name}"
        for item in found.get_unused_code(min_confidence=60)
        if not (item.typ == "variable" and item.confidence == 60)
    }
    repository = SOURCE.parents[1]
    pages = [repository / "README.md", *(repository / "docs").rglob("*.md")]
    documented = {
        word for page in pages for word in re.findall(r"\w+", page.read_text(encoding="utf-8"))
    }
    explained = {name for names in REASONS.values() for name in names.split()}
    new = [where for name, where in unused.items() if name not in documented | explained]
    assert not new, "remove, document or explain in REASONS:\n" + "\n".join(new)
    stale = sorted(explained - set(unused))
    assert not stale, f"used by now: {stale}. Drop them from REASONS."
