"""Whole files of every format, made on the spot: what the mutators start from."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from safetensors.numpy import save

from command_line import make_files, succeed

N = 40
CONFIG = """\
[data]
path = "{data}"
test_path = "{data}"
image_size = 16
context_length = 8
vocab_size = 300
max_corrupt = 0.5
workers = 1

[model]
name = "clip-tiny"

[temperature]
name = "baseline"

[train]
steps = 1
batch_size = 4
learning_rate = 0.001
device = "cpu"
threads = 1
loggers = []

[evaluate]
pairs = 4
"""


def embeddings(rows: np.ndarray) -> dict[str, bytes]:
    """The same rows in every format of embeddings."""
    table = {
        "embedding": pa.FixedSizeListArray.from_arrays(rows.reshape(-1), rows.shape[1]),
        "id": [f"row-{place}" for place in range(len(rows))],
        "caption": [f"caption {place}" for place in range(len(rows))],
    }
    return {
        "npy": _to_bytes(np.save, rows),
        "npz": _to_bytes(np.savez, rows=rows, ids=np.array(table["id"])),
        "safetensors": save({"rows": rows}, {"about": "rows of a test"}),
        "pt": _torch(rows),
        "parquet": _parquet(table),
    }


def images(size: tuple[int, int] = (48, 36)) -> dict[str, bytes]:
    """One picture in every format that is read, and in some that are not."""
    picture = Image.effect_mandelbrot(size, (-3, -2.5, 2, 2.5), 20).convert("RGB")
    frames = [picture.rotate(turn) for turn in (20, 40)]
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = "a picture", 6
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "jpeg": ("JPEG", {"exif": exif, "comment": b"words"}),
        "progressive": ("JPEG", {"progressive": True, "dpi": (72, 72)}),
        "png": ("PNG", {"exif": exif}),
        "apng": ("PNG", {"save_all": True, "append_images": frames}),
        "webp": ("WEBP", {"exif": exif.tobytes()}),
        "animated": ("WEBP", {"save_all": True, "append_images": frames}),
        "gif": ("GIF", {"save_all": True, "append_images": frames}),
        "bmp": ("BMP", {}),
        "tiff": ("TIFF", {"compression": "tiff_lzw", "tiffinfo": {305: "x" * 40}}),
        "tiff-jpeg": ("TIFF", {"compression": "jpeg"}),
        "tiff-raw": ("TIFF", {"save_all": True, "append_images": frames}),
        "ppm": ("PPM", {}),
        "avif": ("AVIF", {}),
        "eps": ("EPS", {}),
        "ico": ("ICO", {}),
    }
    found = {}
    for name, (kind, options) in kinds.items():
        out = io.BytesIO()
        picture.save(out, kind, **options)
        found[name] = out.getvalue()
    out = io.BytesIO()
    Image.fromarray(np.arange(48 * 36, dtype=np.uint16).reshape(36, 48)).save(out, "PNG")
    found["png-16"] = out.getvalue()
    out = io.BytesIO()
    picture.quantize(16).save(out, "PNG", transparency=bytes(16))
    found["png-palette"] = out.getvalue()
    return found


def captions() -> dict[str, bytes]:
    """Images with captions: COCO's JSON, CSV, a tar shard and Parquet."""
    picture = images((20, 20))["png"]
    names = [f"{place}.png" for place in range(8)]
    coco = {
        "images": [{"id": place, "file_name": name} for place, name in enumerate(names)],
        "annotations": [{"image_id": place, "caption": f"a {place}"} for place in range(8)],
    }
    table = {"image": [picture] * 8, "captions": [["a", "b"]] * 8, "name": names}
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as file:
        for place in range(8):
            for suffix, inner in (("png", picture), ("txt", b"a caption"), ("json", b"{}")):
                member = tarfile.TarInfo(f"{place:05}.{suffix}")
                member.size = len(inner)
                file.addfile(member, io.BytesIO(inner))
    return {
        "json": json.dumps(coco).encode(),
        "csv": ("image,caption\n" + "".join(f'{name},"a, b"\n' for name in names)).encode(),
        "tar": tar.getvalue(),
        "parquet": _parquet(table),
    }


def make_base(folder: Path) -> dict[str, dict[str, bytes]]:
    """Write what commands need beside the damaged file, and return every whole file by kind."""
    X, Y = make_files(folder, N)
    found = {"embeddings": embeddings(X), "images": images(), "captions": captions()}
    found["embeddings"]["stacked"] = _to_bytes(np.save, np.stack([X, Y]))
    found["corrections"] = {}
    pair = folder / "image.npy", folder / "text.npy"
    for method in ("shift", "whiten", "calibrate"):
        path = folder / f"{method}.safetensors"
        succeed("fit", *pair, "--method", method, "--queries", "text", "-o", path)
        found["corrections"][method] = path.read_bytes()
    labels = np.arange(N) // 2
    found["groups"] = {
        "txt": "".join(f"{label}\n" for label in labels).encode(),
        "npy": _to_bytes(np.save, labels),
        "names.npy": _to_bytes(np.save, np.array([f"é{label}" for label in labels])),
        "parquet": _parquet({"group": labels}),
        "csv": ("group\n" + "".join(f"{label}\n" for label in labels)).encode(),
    }
    (folder / "groups.npy").write_bytes(found["groups"]["npy"])
    (folder / "bars.parquet").write_bytes(found["captions"]["parquet"])
    (folder / "photos").mkdir()
    picture = images((20, 20))["png"]
    for place in range(8):
        (folder / "photos" / f"{place}.png").write_bytes(picture)
    config = CONFIG.format(data=folder / "bars.parquet")
    found["configs"] = {"toml": config.encode()}
    return found


def _to_bytes(write: Any, *arrays: Any, **named: Any) -> bytes:
    out = io.BytesIO()
    write(out, *arrays, **named)
    return out.getvalue()


def _parquet(table: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(table), out)
    return out.getvalue()


def _torch(rows: np.ndarray) -> bytes:
    import torch

    out = io.BytesIO()
    torch.save({"rows": torch.from_numpy(rows)}, out)
    return out.getvalue()
