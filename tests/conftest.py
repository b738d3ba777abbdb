"""What the tests share: data with a gap, made up, trained and published; NumPy and torch."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from safetensors.numpy import load_file
from scipy.linalg import orthogonal_procrustes

from browser import MISSING, chromium, opened
from modgap import fuse, load_digits
from modgap.arrays import product
from modgap.io import Modalities, open_pair

settings.register_profile("modgap", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("modgap")

# A suite started in the background ignores Ctrl-C, and so would every process it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without bytecode every process that a test starts would compile modgap anew, and every suite
# would rewrite the asserts of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Milvus Lite's servers say good-bye in the log of gRPC when a suite ends.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "liang2022"
PUBLISHED = Path(os.environ.get("MODGAP_PUBLISHED", BESIDE))
# Folders of embeddings for modgap reproduce: those of Liang et al. 2022, and of others.
EMBEDDINGS = tuple(f for f in (PUBLISHED, PUBLISHED.parent / "published") if f.is_dir())
FLICKR8K = Path(__file__).parent / "data" / "flickr8k-pretrained.safetensors"


def unit(rows: np.ndarray) -> np.ndarray:
    """The rows at unit length."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_pairs(n: int = 60, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs that share a latent, each modality with its own offset, noise and row lengths."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, d))
    offsets = 1.5 * rng.normal(size=(2, d))
    sides = []
    for offset in offsets:
        rows = latent + offset + 0.6 * rng.normal(size=(n, d))
        sides.append(rows * rng.uniform(0.5, 2.0, size=(n, 1)))
    return sides[0], sides[1]


def make_many(
    n: int = 60, d: int = 12, names: Sequence[str] = ("image", "text", "audio"), seed: int = 0
) -> Modalities:
    """Modalities that share a latent row by row, each with its own offset, noise and lengths."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, d))
    rows = {}
    for name in names:
        one = latent + 1.5 * rng.normal(size=d) + 0.4 * rng.normal(size=(n, d))
        rows[name] = one * rng.uniform(0.5, 2.0, size=(n, 1))
    return Modalities.of(rows)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what was imported: it looks at all of it each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without the published embeddings, tests that need them are skipped."""
    if len(EMBEDDINGS) < 2 and item.get_closest_marker("published"):
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests: each takes a context of it."""
    if chromium() is None:
        pytest.skip(MISSING)
    pytest.importorskip("playwright", reason="playwright is not installed")
    with warnings.catch_warnings():
        with opened() as found:
            yield found
        # Playwright's event loop may be closed while a transport is still open.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def pairs():
    """Sixty pairs in 12 dimensions, float64, with a gap and with norms that vary."""
    return make_pairs()


@pytest.fixture(scope="session")
def published_clip():
    """CLIP ViT-B/16 on 500 MS-COCO pairs, unit rows, published with Liang et al. 2022."""
    return load_published("features_clip.npy")


@pytest.fixture(scope="session")
def published_unsplash():
    """CLIP ViT-B/32 on 500 photos of Unsplash and their captions."""
    held = load_published_tensors("unsplash-clip-b32")
    return held["image"], held["text"]


@pytest.fixture(scope="session")
def digits_fused():
    """Digits, their captions, and each digit fused with its first caption."""
    digits = load_digits()
    gx, gy = (np.asarray(groups) for groups in digits.groups)
    known, first = np.unique(gy, return_index=True)
    fused = fuse(digits.X, digits.Y[first[np.searchsorted(known, gx)]])
    rows = {"image": digits.X, "text": digits.Y, "fused": fused}
    return Modalities.of(rows, groups={"image": gx, "text": gy, "fused": gx})


@pytest.fixture(scope="session")
def clap_beside_clip():
    """CLIP on ImageNet and CLAP on ESC-50 in one space: 50 classes of each, linked at random."""
    clip, clap = (load_published_tensors(name) for name in ("imagenet-clip-b32", "esc50-clap"))
    classes = np.random.default_rng(0).choice(1000, 50, replace=False)  # one for each of ESC-50
    images = np.flatnonzero(np.isin(clip["labels"], classes))
    sounds = np.concatenate([np.flatnonzero(clap["labels"] == label)[:4] for label in range(50)])
    rows = {
        "image": clip["image"][images],
        "caption": clip["class_text"][classes],
        "sound": clap["audio"][sounds],
        "label": clap["class_text"],
    }
    linked = {"caption": classes, "sound": classes[clap["labels"][sounds]], "label": classes}
    return Modalities.of(
        {name: one.astype(np.float32) for name, one in rows.items()},
        groups={"image": clip["labels"][images], **linked},
    )


@pytest.fixture(scope="session")
def clap_joined_to_clip(clap_beside_clip):
    """The same with CLAP turned so that its labels point where the linked captions do."""
    rows = {name: side.rows() for name, side in clap_beside_clip.sides.items()}
    captions = rows["caption"] / np.linalg.norm(rows["caption"], axis=1, keepdims=True)
    turn = orthogonal_procrustes(rows["label"], captions)[0]
    for name in ("sound", "label"):
        rows[name] = rows[name] @ turn
    return Modalities.of(rows, groups=dict(zip(rows, clap_beside_clip.group_labels, strict=True)))


@dataclass(frozen=True)
class Captioned:
    """Images and their captions: unit rows, and the image that each row belongs to."""

    X: np.ndarray
    Y: np.ndarray
    gx: np.ndarray
    gy: np.ndarray

    def part(self, images: np.ndarray, captions: int = 5) -> Captioned:
        """These images and the first captions of each."""
        in_x = np.isin(self.gx, images)
        in_y = np.isin(self.gy, images) & (np.arange(len(self.gy)) % 5 < captions)
        return Captioned(self.X[in_x], self.Y[in_y], self.gx[in_x], self.gy[in_y])

    def halves(self, seed: int, captions: int = 5) -> tuple[Captioned, Captioned]:
        """Half of the images to fit on, and the other half to judge on."""
        fit, rest = np.array_split(np.random.default_rng(seed).permutation(self.gx), 2)
        return self.part(fit, captions), self.part(rest, captions)


@pytest.fixture(scope="session")
def flickr8k():
    """1,000 held-out images of Flickr8k with 5 captions each, in the order of the images.

    Embedded by what ``modgap train flickr8k-pretrained`` trains: EfficientNet-Lite2 and MiniLM,
    with a small gap. The file has float16; at unit length again, inner products are cosines to
    float32's precision.
    """
    pair = open_pair(FLICKR8K)
    X, Y = (side.rows().astype(np.float32) for side in (pair.x, pair.y))
    return Captioned(unit(X), unit(Y), *pair.groups)


def load_published(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = PUBLISHED / name
    if not path.exists():
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    X, Y = np.load(path)
    return X, Y


def load_published_tensors(name: str) -> dict[str, np.ndarray]:
    path = PUBLISHED.parent / "published" / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"the published embeddings are not at {path.parent}")
    return load_file(path)


def set_tiles(monkeypatch: pytest.MonkeyPatch, height: int, width: int) -> None:
    """Products come in tiles of this size, whatever the library."""
    for name in ("NUMPY_TILE", "TORCH_TILE"):
        monkeypatch.setattr(product, name, (height, width))
    monkeypatch.setattr(product, "NUMPY_SIDE", min(height, width))


@dataclass(frozen=True)
class Library:
    """An array library and a precision: calling it turns arrays into its own."""

    name: str
    precision: str

    def __call__(self, A: np.ndarray, precision: str | None = None) -> Any:
        A = np.array(A, dtype=precision or self.precision)
        if self.name == "numpy":
            return A
        import torch

        return torch.from_numpy(A)

    @property
    def tolerance(self) -> float:
        return 1e-6 if self.precision == "float64" else 1e-4

    def close(self, expected: Any) -> Any:
        """Equal to the reference within the tolerance of the precision."""
        return pytest.approx(expected, rel=self.tolerance, abs=self.tolerance, nan_ok=True)

    def check_kind(self, A: Any) -> np.ndarray:
        """The result as NumPy, having checked that it came in the library of the input."""
        if self.name == "numpy":
            assert isinstance(A, np.ndarray)
            return A
        import torch

        assert isinstance(A, torch.Tensor)
        assert A.device.type == "cpu"
        return A.numpy()


@pytest.fixture(
    params=[
        ("numpy", "float64"),
        pytest.param(("numpy", "float32"), marks=pytest.mark.long),
        pytest.param(("torch", "float64"), marks=pytest.mark.long),
        ("torch", "float32"),
    ],
    ids="-".join,
)
def library(request):
    """NumPy in float64 and torch, where it is, in float32; the others with the long tests."""
    name, precision = request.param
    if name == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    return Library(name, precision)
