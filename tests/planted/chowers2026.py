"""Violations of the claims of chowers2026, in the rows that its checks read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from planted import Plant, in_trained_metrics, on_pairs, only

Rows = tuple[np.ndarray, np.ndarray]
# Files of embeddings, by the names of their rows, classes and texts.
CLASSES = {"imagenet-clip-b32": "image", "esc50-clap": "audio"}
PAIRED = ("clip", "videoclip", "unsplash-clip-b32")


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def everywhere(make: Callable[[np.ndarray, np.ndarray], Rows]) -> Callable[[str, Any], Any]:
    """Queries and candidates made anew, of every file, from the truth and the candidates."""

    def change(name: str, value: Any) -> Any:
        if name in CLASSES:
            X, texts = make(value["labels"], value["class_text"])
            return other_wording({**value, CLASSES[name]: X, "class_text": texts}, 1e-4)
        if name == "unsplash-clip-b32":
            X, texts = make(np.arange(len(value["text"])), value["text"])
            return {"image": X, "text": texts}
        return make(np.arange(len(value[1])), value[1]) if name in PAIRED else value

    return change


def on_its_text(truth: np.ndarray, texts: np.ndarray) -> Rows:
    """Queries where their candidates are: no gap, and nothing to close."""
    return unit(texts)[truth], texts


def beyond_the_mean(
    truth: np.ndarray, texts: np.ndarray, spread: float = 0.03, dims: int = 20
) -> Rows:
    """Most queries on one side of the candidates, and a few so far on the other that the mean is
    there: closing the gap moves the candidates away from most."""
    rng = np.random.default_rng(0)
    places = np.zeros(texts.shape)
    places[:, :dims] = spread * rng.normal(size=(len(texts), dims))
    queries = places[truth]
    queries[:, :dims] += spread / 2 * rng.normal(size=(len(truth), dims))
    places[:, -2:], queries[:, -2:] = [1.0, 0.0], [1.0, -0.2]
    queries[rng.random(len(truth)) < 0.3] = np.eye(texts.shape[1])[-1]
    return unit(queries), unit(places)


def twins(truth: np.ndarray, texts: np.ndarray) -> Rows:
    """Candidates two by two, told apart by little variance along the gap, which a part of the
    queries makes: closing it decides between twins."""
    rng = np.random.default_rng(0)
    n, d = texts.shape
    places = np.zeros((n, d))
    places[:, :40] = np.repeat(rng.normal(size=(n // 2 + 1, 40)), 2, axis=0)[:n] / 40**0.5
    places[:, 41] = 1.0
    places[:, 40] = np.where(np.arange(n) % 2, 0.1, -0.1)
    queries = places[truth] + 0.01 * rng.normal(size=(len(truth), d)) / d**0.5
    away = np.zeros(d)
    away[40] = 1.0
    queries[rng.random(len(truth)) < 0.4] = away
    return unit(queries), unit(places)


def among_the_images(X: np.ndarray, _: np.ndarray) -> Rows:
    """Texts that are other images."""
    return X, np.roll(X, 1, axis=0)


def other_wording(held: Mapping[str, np.ndarray], noise: float = 0.0) -> dict[str, np.ndarray]:
    """The same texts, or with noise that is drawn for every coordinate."""
    texts = held["class_text"]
    if noise:
        texts = unit(texts) + noise * np.random.default_rng(0).normal(size=texts.shape)
    return {**held, "class_text_other_wording": texts.astype(np.float32)}


def apart(rows: Rows) -> Rows:
    """Pairs with a gap that are far from all others: nothing to gain from the start."""
    X = np.zeros_like(rows[0])
    X[:, 0] = 1.5 * np.arange(len(X))
    X[:, -1] = 0.5 + 1e-3 * (np.arange(len(X)) % 2)
    return X, X * np.where(np.arange(X.shape[1]) == X.shape[1] - 1, -1, 1)


def apart_on_the_sphere(rows: Rows) -> Rows:
    """The same on two circles in R³."""
    angle = 2 * np.pi * np.arange(len(rows[0])) / len(rows[0])
    circle = np.stack([np.cos(angle), np.sin(angle), np.full_like(angle, 0.5)], axis=1)
    return circle / 1.25**0.5, circle * [1, 1, -1] / 1.25**0.5


def anywhere(rows: Rows) -> Rows:
    """Points all over the sphere."""
    drawn = np.random.default_rng(0).normal(size=(2, *rows[0].shape))
    return tuple(drawn / np.linalg.norm(drawn, axis=2, keepdims=True))


def crowded(rows: Rows, count: int = 100) -> Rows:
    """Points in three dimensions of many, too many for those."""
    few = [np.where(np.arange(side.shape[1]) < side.shape[1] - 3, 0, side) for side in rows]
    X, Y = (side[:count] / np.linalg.norm(side[:count], axis=1, keepdims=True) for side in few)
    return X, Y


def crossed(rows: Rows) -> Rows:
    """Every other pair the other way round: no common gap."""
    X, Y = (side.copy() for side in rows)
    X[::2], Y[::2] = rows[1][::2], rows[0][::2]
    return X, Y


def one_point(rows: Rows) -> Rows:
    """Each modality in one place, where no descent moves it."""
    X, Y = (np.zeros_like(side) for side in rows)
    X[:, -1], Y[:, -1] = 1.0, -1.0
    return X, Y


def wide(rows: Rows) -> Rows:
    """Wide lines, X denser in the middle than Y: who feels more of the others is, by a little,
    farther from them already."""
    rng = np.random.default_rng(0)
    sides = []
    for side, inside in zip(rows, (0.8, 0.2), strict=True):
        inner = np.arange(len(side)) < inside * len(side)
        places = np.where(inner, 0, rng.choice([-2, 2], len(side)))
        across = places + 0.3 * rng.normal(size=len(side))
        across -= across.mean()  # the gap has no part in it
        sides.append(np.stack([across, 0.5 + 1e-3 * (inner == (inside < 0.5))], axis=1))
    return sides[0], sides[1] * np.array([1, -1])


def no_gap(rows: Rows) -> Rows:
    """The same points in both, hardly a gap apart, but other pairs."""
    X, _ = anywhere(rows)
    return X, np.roll(X, 1, axis=0) + 1e-6


def along_the_gap(X: np.ndarray, Y: np.ndarray) -> Rows:
    """Rows that vary along the gap most of all."""
    rng = np.random.default_rng(0)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    X, Y = (side + rng.normal(size=(len(side), 1)) * gap for side in (X, Y))
    return X, Y


def upside_down(rows: Rows) -> Rows:
    return rows[1], rows[0]


def four_places(rows: Rows) -> Rows:
    """Points of both modalities over each other in four places that do not feel each other."""
    X, Y = (side.copy() for side in rows)
    X[:, 0] = Y[:, 0] = np.resize([-50.0, -20.0, 20.0, 50.0], len(X))
    return X, Y


def hollow(rows: Rows) -> Rows:
    """X at both ends of its line, and none where the centre is."""
    X, Y = rows[0].copy(), rows[1]
    X[:, 0] = np.where(np.arange(len(X)) % 2, 2.0, -2.0)
    return X, Y


def grid(rows: Rows) -> Rows:
    """Pairs over each other, far from all others: in balance from the start."""
    n = len(rows[0])
    places = np.stack([np.arange(n) % 10, np.arange(n) // 10], axis=1).astype(float)
    return places + np.array([0.0, 0.3]), places


def around_0(rows: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).normal(size=np.shape(rows))


def wider(starts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**start, "width": {name: 10 * width for name, width in start["width"].items()}}
        for start in starts
    ]


def replaced(**others: str) -> Callable[[Any], Any]:
    """Arrangements in place of others."""
    return lambda found: {**found, **{name: found[other] for name, other in others.items()}}


BEYOND = everywhere(beyond_the_mean)
# Coordinates small enough to be rounded away.
BEYOND_AND_DENSE = everywhere(partial(beyond_the_mean, spread=0.01, dims=300))
NO_GAP = everywhere(on_its_text)
TWINS = everywhere(twins)
PLANTS: dict[str, tuple[Plant, ...]] = {
    "fig1": (
        Plant(
            on_pairs(among_the_images, PAIRED),
            ("CLIP: in three", "VideoCLIP: in three", "Unsplash: in three"),
        ),
        Plant(only(**{"imagenet-clip-b32": other_wording}), ("ImageNet: images are taken",)),
    ),
    "fig2": (Plant(NO_GAP, ("ImageNet: the best amount", "Some task")),),
    "fig3": (
        Plant(only(arrangements=replaced(gap="crowded")), ("With a gap the loss",)),
        Plant(only(arrangements=replaced(crossed="aligned")), ("Pairs that are not",)),
    ),
    "fig4": (
        Plant(
            only(plane=apart, sphere=apart_on_the_sphere),
            ("In the plane the loss", "On the sphere the loss"),
        ),
        Plant(
            only(plane=crossed, sphere=anywhere),
            ("In the plane more than", "On the sphere the mean absolute cosine"),
        ),
    ),
    "fig5": (
        Plant(only(start=upside_down), ("S_i falls",)),
        Plant(only(start=wide), ("The first step shrinks", "By t = 25", "By t = 100")),
        Plant(only(**{"spread 0.001": wide}), ("In tight clusters", "Ten times tighter")),
    ),
    "fig6": (
        Plant(only(start=grid), ("The variance of S_i",)),
        Plant(
            only(vit=around_0, transformer=around_0, starts=wider),
            ("At random initialisation", "The same on Flickr8k"),
        ),
    ),
    "fig7": (
        Plant(
            only(**{"texts and queries": lambda found: (found[0], found[1][::-1])}),
            ("Every step nearer",),
        ),
    ),
    "fig8": (Plant(BEYOND, ("ImageNet: each step", "ESC-50: each step")),),
    "fig9": (
        Plant(BEYOND_AND_DENSE, ("ImageNet: closing", "CLIP: widening")),
        # Larger than half a step, so that a level at 0 does not take them all.
        Plant(everywhere(partial(beyond_the_mean, dims=100)), ("ImageNet: closing",)),
        Plant(everywhere(partial(beyond_the_mean, spread=0.02, dims=300)), ("ESC-50: widening",)),
    ),
    "fig10": (
        Plant(TWINS, ("ImageNet: among all classes closing costs",)),
        Plant(NO_GAP, ("ImageNet: among four", "ImageNet: it rises")),
        Plant(in_trained_metrics(rephrasing_closed=0.3), ("Flickr8k: among four captions the",)),
    ),
    "fig11": (
        Plant(only(start=four_places), ("On the sum", "There the loss")),
        Plant(only(start=hollow), ("S_i is larger",)),
    ),
    "fig13": (
        Plant(
            on_pairs(along_the_gap, PAIRED),
            ("CLIP images", "VideoCLIP texts", "Unsplash texts"),
        ),
    ),
    "fig14": (Plant(BEYOND, ("ImageNet: closing", "CLIP: widening")),),
    "fig15": (
        Plant(only(**{"imagenet-clip-b32": lambda h: other_wording(h, 0.1)}), ("d(C)",)),
        Plant(in_trained_metrics(rewording_correlation=0.5), ("d(C)",)),
    ),
    "fig16": (
        Plant(
            only(start=crowded),
            ("On the sphere", "There more than", "The mean absolute cosine"),
        ),
    ),
    "fig17": (
        Plant(
            only(**dict.fromkeys(("R³", "gap 0", "gap 2", "R²⁵⁶"), one_point)),
            ("At τ = 1 in R³", "Where no gap is put in"),
        ),
        Plant(only(**{"gap 2": crowded, "R²⁵⁶": no_gap}), ("Up to τ = 0.1", "At τ = 100")),
    ),
    "fig18": (
        Plant(TWINS, ("ImageNet: at ε = 5 % less", "CLIP: at ε = 5 % robustness")),
        Plant(NO_GAP, ("ImageNet: a larger ε",)),
    ),
    "fig19": (Plant(TWINS, ("CLIP: at ε = 5 %",)),),
}
# Entries that take a second or more, which are tried with the long tests.
SLOW: tuple[str, ...] = tuple(f"fig{k}" for k in (1, 4, 5, 6, 8, 9, 10, 11, 14, 15, 17, 18, 19))
# Entries whose violations show in the published rows alone.
PUBLISHED: tuple[str, ...] = ("fig2", "fig13", "fig15")
