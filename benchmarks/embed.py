"""Does reading keep up with the network, and does memory stay flat?

    python benchmarks/embed.py [--images 2000] [--items 100000] [--repeats 3] [--device cpu]

Embeds JPEGs with a small CLIP of random weights, made on the spot. The time of the whole pass is
compared with that of the network alone (on batches that are ready) and that of reading, decoding
and preparing alone (the same pass with a network that does nothing). On a processor these share
the cores, so the whole may take their sum; on a GPU they overlap, so it may take the slower one.
Memory is that of the process after a fifth of the items and at the end.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from modgap.embed import CallableModel, Model, embed, open_model
from modgap.embed.item_batches import decoder
from modgap.io import open_items
from timing import anonymous_megabytes

ON_CPU, ON_GPU, MORE_MEMORY = 1.1, 1 / 0.9, 1.05
BATCH = 64


def write_images(path: Path, n: int, side: tuple[int, int], kind: str) -> Path:
    """A Parquet file of random pictures, a few of them over and over, with a caption each."""
    rng = np.random.default_rng(0)
    stored = []
    for _ in range(min(n, 50)):
        small = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        out = io.BytesIO()
        Image.fromarray(small).resize(side, Image.Resampling.BICUBIC).save(out, kind)
        stored.append(out.getvalue())
    columns = {
        "name": [f"{k}.{kind.lower()}" for k in range(n)],
        "image": [stored[k % len(stored)] for k in range(n)],
        "caption": [f"picture {k}" for k in range(n)],
    }
    pq.write_table(pa.table(columns), path, row_group_size=1000)
    return path


def small_clip(folder: Path, device: str | None) -> Model:
    """A CLIP with random weights, large enough that its time counts."""
    import transformers as t
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", "[BOS]", "[EOS]", "picture", *map(str, range(10))]
    tokenizer = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    t.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    ).save_pretrained(folder)
    size = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 3,
            "intermediate_size": 768}  # fmt: skip
    text = {**size, "vocab_size": len(words), "max_position_embeddings": 16, "bos_token_id": 2,
            "eos_token_id": 3, "pad_token_id": 0}  # fmt: skip
    vision = {**size, "image_size": 224, "patch_size": 32}
    t.CLIPModel(t.CLIPConfig(vision_config=vision, text_config=text)).save_pretrained(folder)
    t.CLIPImageProcessor().save_pretrained(folder)
    return open_model(f"hf:{folder}", device=device)


class Idle(Model):
    """A model whose network does nothing; what goes before it is done."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.dim, self.image_side = "idle", model.dim, model.image_side

    def prepare(self, items: Any, modality: str, role: Any = "document") -> Any:
        return len(items), self._model.prepare(items, modality, role)

    def rows(self, prepared: Any, modality: str) -> np.ndarray:
        return np.ones((prepared[0], self.dim), np.float32)


def best(work: Callable[[], None], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def throughput(n: int, repeats: int, device: str | None) -> bool:
    """Print the three times; returns whether the whole keeps its limit."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        data = write_images(home / "photos.parquet", n, (320, 240), "JPEG")
        model = small_clip(home / "model", device)
        items, count = open_items(data), iter(range(10_000))
        decode = decoder(items, model)
        batches = [
            model.prepare(
                [decode(items.stored(row)) for row in range(start, start + BATCH)], "image"
            )
            for start in range(0, 4 * BATCH, BATCH)
        ]
        texts = model.prepare([f"picture {k}" for k in range(BATCH)], "text")

        def network() -> None:
            for start in range(0, n, BATCH):
                model.rows(batches[start // BATCH % len(batches)], "image")
                model.rows(texts, "text")

        def whole(which: Model) -> Callable[[], None]:
            return lambda: (
                embed(which, items, home / f"rows{next(count)}", batch_size=BATCH) and None
            )

        network()
        alone, reading = best(network, repeats), best(whole(Idle(model)), repeats)
        both = best(whole(model), repeats)
    on_gpu = device is not None and device.startswith("cuda")
    allowed = ON_GPU * max(alone, reading) if on_gpu else ON_CPU * (alone + reading)
    print(f"network alone {alone:.2f} s, reading alone {reading:.2f} s, together {both:.2f} s")
    print(f"{n / both:,.0f} images a second; {both / allowed:.2f} of what is allowed (limit 1)")
    return both <= allowed


def memory(n: int) -> bool:
    """Print the memory on the way and at the end; returns whether it stays flat."""
    seen: dict[int, float] = {}
    model = CallableModel(
        lambda images: np.ones((len(images), 64), np.float32),
        lambda texts: np.ones((len(texts), 64), np.float32),
    )

    def progress(_: str, done: int, total: int) -> None:
        fifth = 5 * done // total
        seen.setdefault(fifth, anonymous_megabytes())

    with tempfile.TemporaryDirectory() as place:
        data = write_images(Path(place) / "icons.parquet", n, (16, 16), "PNG")
        embed(model, data, Path(place) / "rows", progress=progress)
    ratio = seen[5] / seen[1]
    print(f"memory after a fifth of {n:,} items {seen[1]:.0f} MB, at the end {seen[5]:.0f} MB; "
          f"{ratio:.2f} times (limit {MORE_MEMORY})")  # fmt: skip
    return ratio <= MORE_MEMORY


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device")
    given = parser.parse_args()
    kept = [throughput(given.images, given.repeats, given.device)]
    if given.items:
        kept.append(memory(given.items))
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
