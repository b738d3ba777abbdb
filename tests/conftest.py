"""What the tests share: seeded data with a gap, the published embeddings, NumPy and torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("modgap", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("modgap")

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "liang2022"
PUBLISHED = Path(os.environ.get("MODGAP_PUBLISHED", BESIDE))


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


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Sixty pairs in 12 dimensions, float64, with a gap and with norms that vary."""
    return make_pairs()


@pytest.fixture(scope="session")
def published_clip() -> tuple[np.ndarray, np.ndarray]:
    """CLIP ViT-B/16 on 500 MS-COCO pairs, unit rows, published with Liang et al. 2022."""
    return load_published("features_clip.npy")


def load_published(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = PUBLISHED / name
    if not path.exists():
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    X, Y = np.load(path)
    return X, Y


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
        ("numpy", "float32"),
        ("torch", "float64"),
        ("torch", "float32"),
    ],
    ids="-".join,
)
def library(request: pytest.FixtureRequest) -> Library:
    """NumPy and torch, each in float64 and float32; torch is left out where it is absent."""
    name, precision = request.param
    if name == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    return Library(name, precision)
