"""Small data sets to embed, written in the layouts that people have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import wavfile

# Readers hand over bytes as they are, so these need not be real images.
IMAGES = {"b.jpg": b"\xff\xd8\xffbee", "a.jpg": b"\xff\xd8\xffant", "c.png": b"\x89PNGcat"}


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_images(folder: Path) -> Path:
    for name, image in IMAGES.items():
        write(folder / name, image)
    return folder


def write_table(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def write_json_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def wav(samples: np.ndarray, rate: int = 8000) -> bytes:
    stored = io.BytesIO()
    wavfile.write(stored, rate, samples)
    return stored.getvalue()


def tone(rate: int = 8000, seconds: float = 0.25, hertz: float = 440.0) -> np.ndarray:
    """A pure tone of half the loudest, as float32."""
    time = np.arange(round(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def make_esc50(folder: Path) -> Path:
    """The columns and names of ESC-50: FOLD-CLIP_ID-TAKE-TARGET.wav."""
    rows = [
        ("1-100032-A-0.wav", 1, 0, "dog", True, 100032, "A"),
        ("1-100038-A-14.wav", 1, 14, "chirping_birds", False, 100038, "A"),
        ("5-9032-A-0.wav", 5, 0, "dog", True, 9032, "A"),
    ]
    header = ("filename", "fold", "target", "category", "esc10", "src_file", "take")
    write_table(folder / "meta" / "esc50.csv", [header, *rows])
    for name, *_ in rows:
        write(folder / "audio" / name, wav(tone()))
    return folder


def make_aokvqa(folder: Path, split: str = "val") -> Path:
    """Three questions about two photographs."""
    entries = [
        {
            "split": split,
            "image_id": image,
            "question_id": f"q{number}",
            "question": f"What is number {number}?",
            "choices": ["cat", "dog", "bee", "ant"],
            "correct_choice_idx": number,
            "direct_answers": ["cat"] * 10,
            "difficult_direct_answer": number == 1,
            "rationales": ["Because."],
        }
        for number, image in enumerate((299207, 25, 299207))
    ]
    write(folder / f"aokvqa_v1p0_{split}.json", json.dumps(entries).encode())
    for image in (299207, 25):
        write(folder / "coco" / f"{split}2017" / f"{image:012d}.jpg", b"photo %d" % image)
    return folder


def make_mmvp(folder: Path) -> Path:
    rows = [
        (1, "Orientation", "a dog facing left"),
        (2, "Orientation", "a dog facing right"),
        (31, "Camera Perspective", "a car from above"),
        (32, "Camera Perspective", "a car from the side"),
    ]
    write_table(folder / "Questions.csv", [("Question ID", "Type", "Statement"), *rows])
    for number, pattern, _ in rows:
        write(folder / "MLLM_VLM Images" / pattern / f"{number}.jpg", b"image %d" % number)
    return folder


def make_fairface(folder: Path) -> Path:
    header = ("file", "age", "gender", "race", "service_test")
    for split in ("train", "val"):
        rows = [
            (f"{split}/1.jpg", "3-9", "Male", "East Asian", "False"),
            (f"{split}/2.jpg", "more than 70", "Female", "Latino_Hispanic", "True"),
        ]
        write_table(folder / f"fairface_label_{split}.csv", [header, *rows])
        for name, *_ in rows:
            write(folder / name, name.encode())
    return folder
