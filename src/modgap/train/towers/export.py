"""Write a pretrained encoder as a folder that any machine with torch and transformers reads.

    python -m modgap.train.towers.export efficientnet-lite2 towers/efficientnet-lite2
    python -m modgap.train.towers.export all-minilm-l6-v2 towers/minilm --captions photos.parquet

The weights are stored in float16 unless --dtype says otherwise. With --captions or --texts the
vocabulary is cut down to the tokens that occur in them: the vectors of those texts stay as they
were. The network of EfficientNet-Lite is built by efficientnet-lite-pytorch, which must be there
where the folder is read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from modgap.core.checks import InputValueError, check_choice
from modgap.core.files import atomic_path, write_text
from modgap.train.towers.config import PRETRAINED_KINDS, TowerSide
from modgap.train.towers.encoders import (
    CONFIG,
    NAMES,
    PREPROCESSOR,
    TOKENIZER,
    WEIGHTS,
    Encoder,
    open_encoder,
)
from modgap.train.towers.tokenizer import Tokenizer

StoredType = Literal["float16", "float32"]
# The word vectors of a text encoder: the one matrix whose rows are tokens.
_EMBEDDINGS = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight")


def export_encoder(
    encoder: Encoder,
    folder: str | Path,
    *,
    texts: Sequence[str] = (),
    dtype: StoredType = "float16",
) -> int:
    """Write config.json, model.safetensors and tokenizer.json; returns how many bytes they take.

    Parameters
    ----------
    encoder : Encoder
        From `open_encoder`.
    folder : path
        Made if it is not there.
    texts : sequence of str
        Keep only the tokens that occur in these, all special ones and single characters.
    dtype : {"float16", "float32"}
        Of the weights on disk.
    """
    import torch
    from safetensors.torch import save

    check_choice(dtype, "dtype", get_args(StoredType))
    if encoder.config.kind not in PRETRAINED_KINDS:
        raise InputValueError(f"{encoder.source} is a run of modgap, which is a folder already.")
    if texts:
        encoder = prune_vocabulary(encoder, texts)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    # A folder of transformers has weights with no name before theirs.
    prefix = "" if encoder.config.kind == "efficientnet" else "network."
    weights = {
        name.removeprefix(prefix): value.to(getattr(torch, dtype)).contiguous()
        if value.is_floating_point()
        else value.contiguous()
        for name, value in encoder.weights().items()
    }
    with atomic_path(place / WEIGHTS) as temporary:
        temporary.write_bytes(save(weights, metadata={"format": "pt"}))
    known = json.loads(encoder.config.architecture)
    if encoder.config.kind == "vision":
        pixels = {"image_mean": known["mean"], "image_std": known["std"]}
        write_text(place / PREPROCESSOR, json.dumps(pixels, indent=2) + "\n")
        known = known["model"]
        known = known.get("vision_config", known)
    write_text(place / CONFIG, json.dumps(known, indent=2) + "\n")
    if encoder.tokenizer:
        write_text(place / TOKENIZER, encoder.tokenizer)
    return sum(path.stat().st_size for path in place.iterdir())


def prune_vocabulary(encoder: Encoder, texts: Sequence[str]) -> Encoder:
    """A text encoder that knows only the tokens of some texts, and gives them the same vectors.

    A word is split into the longest pieces that are known, so texts of words that occur are split
    as before. Other words fall into smaller pieces, at worst single characters.
    """
    if not encoder.tokenizer:
        raise InputValueError(f"{encoder.source} has no vocabulary: images go into it.")
    document = json.loads(encoder.tokenizer)
    if document["model"]["type"] not in ("WordPiece", "WordLevel"):
        raise InputValueError(
            f"A vocabulary of kind {document['model']['type']} cannot be cut down: only WordPiece "
            "and WordLevel keep their other tokens as they were. Leave the texts out."
        )
    kept = _kept(document, Tokenizer.from_json(encoder.tokenizer, encoder.source), texts)
    new = {old: place for place, old in enumerate(kept)}
    known = json.loads(encoder.config.architecture)
    known["vocab_size"] = len(kept)
    for name in [name for name in known if name.endswith("_token_id")]:
        known[name] = new.get(known[name])
    settings = {**encoder.settings, "architecture": json.dumps(known), "vocab_size": len(kept)}

    def weights() -> dict[str, Any]:
        return {
            name: value[kept] if name.endswith(_EMBEDDINGS) else value
            for name, value in encoder.weights().items()
        }

    return replace(
        encoder,
        settings=settings,
        weights=weights,
        tokenizer=json.dumps(_renumbered(document, new)),
    )


def _kept(document: dict[str, Any], tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """The ids that stay, in their old order."""
    vocabulary: dict[str, int] = document["model"]["vocab"]
    prefix = document["model"].get("continuing_subword_prefix", "")
    kept = {token["id"] for token in document["added_tokens"]}
    kept |= {id_ for token, id_ in vocabulary.items() if len(token.removeprefix(prefix)) == 1}
    for start in range(0, len(texts), 10_000):
        for ids in tokenizer.ids(list(texts[start : start + 10_000])):
            kept.update(ids)
    return sorted(kept)


def _renumbered(document: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    """The JSON of a tokenizer with other ids, wherever it names one."""
    model = document["model"]
    model["vocab"] = {token: new[old] for token, old in model["vocab"].items() if old in new}
    for token in document["added_tokens"]:
        token["id"] = new[token["id"]]
    processor = document.get("post_processor") or {}
    for special in processor.get("special_tokens", {}).values():
        special["ids"] = [new[old] for old in special["ids"]]
    for name in ("sep", "cls"):  # as BERT's own processor has them
        if name in processor:
            processor[name] = [processor[name][0], new[processor[name][1]]]
    document["padding"] = document["truncation"] = None  # modgap does both by itself
    return document


def _captions(paths: Sequence[Path]) -> list[str]:
    from modgap.io import open_items

    found = []
    for path in paths:
        data = open_items(path)
        found += [caption for row in range(len(data)) for caption in data.captions(row)]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a folder, and say how large it is."""
    parser = argparse.ArgumentParser(
        prog="python -m modgap.train.towers.export", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("source", help=f"{', '.join(NAMES)}, or a folder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--side", choices=("image", "text"), help="by default what the source is")
    parser.add_argument("--captions", type=Path, action="append", default=[], metavar="DATA")
    parser.add_argument("--texts", type=Path, action="append", default=[], metavar="FILE",
                        help="a text a line")  # fmt: skip
    parser.add_argument("--dtype", choices=get_args(StoredType), default="float16")
    given = parser.parse_args(arguments)
    texts = _captions(given.captions)
    for path in given.texts:
        texts += path.read_text(encoding="utf-8").splitlines()
    side: TowerSide = given.side or ("image" if given.source.startswith("efficientnet") else "text")
    encoder = open_encoder(given.source, side)
    size = export_encoder(encoder, given.folder, texts=texts, dtype=given.dtype)
    print(f"wrote {given.folder}, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
