"""``modgap reproduce ENTRY --rows``: entries that need only embeddings, on rows of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from command_line import modgap
from modgap.reproduce import Setting, entries
from modgap.reproduce.own_rows import read_own_rows
from modgap.reproduce.run import run_entry
from modgap.reproduce.setting import NotAtHand, OwnRows
from modgap.reproduce.sources import pairs, zero_shots

KEYS = ("liang2022/fig4", "yaras2024/fig1", "levi2025/fig2", "chowers2026/fig2")
N, D, CLASSES = 80, 16, 5


class Files:
    """Files of made-up pairs with classes, in a folder."""

    def __init__(self, folder: Path, *, unit: bool = False) -> None:
        rng = np.random.default_rng(0)
        self.folder = folder
        self.labels = np.arange(N) % CLASSES
        class_texts = rng.normal(size=(CLASSES, D))
        latent = class_texts[self.labels] + 0.7 * rng.normal(size=(N, D))
        self.image, self.text = (
            length * (latent + 1.5 * rng.normal(size=D) + 0.5 * rng.normal(size=(N, D)))
            for length in (3.0, 2.0)
        )
        if unit:
            self.image, self.text = (
                rows / np.linalg.norm(rows, axis=1, keepdims=True)
                for rows in (self.image, self.text)
            )
        self.pair = self.save("image", self.image), self.save("text", self.text)
        other = class_texts + 0.3 * rng.normal(size=class_texts.shape)
        self.classes = {
            "labels": self.save("labels", self.labels),
            "class_text": self.save("class_text", class_texts),
            "other_class_text": self.save("other_class_text", other),
        }

    def save(self, name: str, array: np.ndarray) -> Path:
        path = self.folder / f"{name}.npy"
        np.save(path, array.astype(np.float32) if array.dtype.kind == "f" else array)
        return path

    def words(self) -> list[object]:
        """The options of the command line."""
        named = {f"--{name.replace('_', '-')}": path for name, path in self.classes.items()}
        return ["--rows", *self.pair, *(word for both in named.items() for word in both)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# Entries


@pytest.mark.parametrize("unit", [False, True], ids=["raw", "unit"])
@pytest.mark.parametrize("key", KEYS)
def test_an_entry_that_needs_only_embeddings_runs_on_your_rows(tmp_path, key, unit) -> None:
    files = Files(tmp_path, unit=unit)
    out = tmp_path / "out"
    ran = modgap("reproduce", key, *files.words(), "-o", out, "--seeds", 2)
    assert ran.status == 0, ran.err
    words = " ".join(ran.out.split())
    kind = "at unit length" if unit else "not at unit length"
    assert f"On other data: your rows (80 × 16, {kind})" in words
    assert "published measured" in words
    assert "Verdict: other data" in words or "Verdict: consistency only" in words
    assert (out / f"{key}.json").is_file()


@pytest.mark.parametrize("key", ["yaras2024/fig2", "yaras2024/table4"])
def test_an_entry_that_needs_more_than_rows_says_so(files, key) -> None:
    ran = modgap("reproduce", key, *files.words(), "-o", files.folder / "out")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("modgap: ")
    assert ran.err.count("\n") == 1
    assert "rows of your own" in ran.err


def test_a_paper_runs_what_it_can_and_no_verdict_on_record_is_compared(files) -> None:
    ran = modgap(
        "reproduce", "yaras2024", *files.words(), "-o", files.folder / "out", "--json", "--seeds", 1
    )
    assert ran.status == 0, ran.err
    found = {entry["key"]: entry["evidence"] for entry in ran.json["entries"]}
    assert found["yaras2024/fig1"] == "other data"
    assert found["yaras2024/table3"] == "missing"
    assert "on record" not in ran.err


def test_zero_shot_needs_labels_and_class_texts(files) -> None:
    rows = read_own_rows(files.pair)
    with pytest.raises(NotAtHand, match="--labels and --class-text"):
        zero_shots(Setting(rows=rows))
    measured = run_entry(entries()["yaras2024/table2"], Setting(rows=rows))[0].measured
    assert "your rows: zero-shot" not in measured


# What entries are given


def test_rows_come_raw_where_the_paper_wants_them_and_else_at_unit_length(files) -> None:
    setting = Setting(rows=read_own_rows(files.pair, **files.classes))
    (raw,) = pairs(setting, raw=True)
    np.testing.assert_allclose(raw.X, files.image, rtol=1e-6)
    (unit,) = pairs(setting)
    np.testing.assert_allclose(np.linalg.norm(unit.Y, axis=1), 1, rtol=1e-6)
    (task,) = zero_shots(setting)
    np.testing.assert_array_equal(task.labels, files.labels)
    np.testing.assert_allclose(np.linalg.norm(task.X, axis=1), 1, rtol=1e-6)
    assert task.texts.shape == task.other_texts.shape == (CLASSES, D)
    assert setting.rows.used


def test_of_several_texts_an_image_the_first_is_taken_and_that_is_said(files) -> None:
    order = np.random.default_rng(1).permutation(N)
    several = np.concatenate([files.text[order], files.text[order] + 9.0])
    groups = files.folder / "image.txt", files.folder / "text.csv"
    groups[0].write_text("\n".join(f"photo {k}" for k in range(N)))
    groups[1].write_text("\n".join(["group", *(f"photo {k}" for k in [*order, *order])]))
    ran = modgap(
        "reproduce", "yaras2024/fig1", "--rows", files.pair[0], files.save("texts", several),
        "--groups", ",".join(map(str, groups)), "-o", files.folder / "out", "--seeds", 1,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    words = " ".join(ran.out.split())
    assert "of 80 and 160 rows the first of each group that both sides have" in words
    rows = (files.pair[0], files.folder / "texts.npy")
    found = read_own_rows(rows, groups=",".join(map(str, groups)), **files.classes)
    by_text = found.X[:, 0].argsort(), files.image[:, 0].argsort()
    np.testing.assert_allclose(found.Y[by_text[0]], files.text[by_text[1]], rtol=1e-6)
    np.testing.assert_array_equal(found.labels[by_text[0]], files.labels[by_text[1]])


def test_every_format_is_read_and_one_file_may_hold_both(files) -> None:
    both = files.folder / "both.safetensors"
    image, text = (rows.astype(np.float16) for rows in (files.image, files.text))
    save_file({"image": image, "text": text}, both)
    found = read_own_rows((both, both))
    assert found.X.dtype == np.float32
    np.testing.assert_allclose(found.Y, files.text, rtol=1e-2)
    np.savez(files.folder / "image.npz", rows=files.image)
    found = read_own_rows((files.folder / "image.npz", files.pair[1]))
    np.testing.assert_array_equal(found.X, files.image)


def test_the_words_say_how_many_rows_there_are() -> None:
    rows = np.eye(2000, 3) + 1
    assert OwnRows(rows, rows).words == "your rows (2,000 × 3, not at unit length)"


# Refusals


def changed(**other: Callable[[Files], np.ndarray]) -> Callable[[Files], list[object]]:
    """The options with other arrays in some files; rows alone where only rows are other."""

    def words(files: Files) -> list[object]:
        for name, make in other.items():
            files.save(name, make(files))
        return files.words() if other.keys() - {"image", "text"} else ["--rows", *files.pair]

    return words


def with_value(rows: np.ndarray, value: float) -> np.ndarray:
    rows = rows.copy()
    rows[3] = value
    return rows


def beside_rows(*more: object) -> Callable[[Files], list[object]]:
    return lambda files: ["--rows", *files.pair, *more]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            changed(text=lambda files: files.text[:70]),
            "must hold as many rows, got 80 and 70. Say which rows match with --groups",
        ),
        (changed(text=lambda files: files.text[:, :9]), "same number of columns, got 16 and 9"),
        (changed(class_text=lambda _: np.ones((CLASSES, 9))), "same number of columns, got 16"),
        (
            changed(text=lambda files: with_value(files.text, np.nan)),
            "text has 1 row with NaN or infinity, the first at row 3",
        ),
        (changed(text=lambda files: with_value(files.text, 0)), "length zero"),
        (changed(labels=lambda files: files.labels + 1), "must have classes from 0 to 4"),
        (changed(labels=lambda files: files.labels + 1), "got 1 to 5"),
        (
            changed(labels=lambda _: np.zeros(7, int)),
            "must have a whole number for each of the 80 image rows, got shape (7,)",
        ),
        (changed(labels=lambda _: np.zeros(N)), "a whole number for each of the 80 image rows"),
        (changed(other_class_text=lambda _: np.ones((3, D))), "for each class, got 5 and 3 rows"),
        (lambda files: ["--labels", files.classes["labels"]], "belong to --rows"),
        (
            lambda files: ["--rows", *files.pair, "--labels", files.classes["labels"]],
            "both or neither",
        ),
        (beside_rows("--record"), "--rows takes the place"),
        (beside_rows("--resume"), "--rows takes the place"),
        (beside_rows("--list"), "--rows takes the place"),
        (
            lambda files: ["--rows", *files.pair, "--embeddings", files.folder],
            "--rows takes the place",
        ),
        (beside_rows("--groups", "nowhere.txt,nowhere.txt"), "groups must name a column"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(files, words, sentence) -> None:
    ran = modgap("reproduce", "yaras2024/fig1", *words(files))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("modgap: ")
    assert ran.err.count("\n") == 1
    assert sentence in ran.err
