"""The README and the tour, followed: what their commands give is what the verdict printed."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from command_line import script, succeed
from modgap import Correction, load_digits
from modgap.diagnosis.splits import split
from modgap.io import Modalities
from modgap.search import merge

# What the commands wrote is made once for a set, on one worker.
pytestmark = pytest.mark.xdist_group("readme")

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "start" / "tour.md").read_text(encoding="utf-8")


def commands(page: str) -> list[str]:
    """The lines of a page that need nothing but image.npy and text.npy, in order."""
    fenced = re.findall(r"^```\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in fenced for line in block.splitlines()]
    return [one for one in lines if re.match(r"modgap \w+ .*\w\.npy|python fixed/", one)]


COMMANDS = commands(TOUR)


def run(command: str, folder: Path) -> str:
    """Run a line as printed, in a folder of files."""
    program, *words = shlex.split(command)
    with contextlib.chdir(folder):
        return (script if program == "python" else succeed)(*words).out


def save(folder: Path, X: np.ndarray, Y: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    np.save(folder / "image.npy", X)
    np.save(folder / "text.npy", Y)


MADE: dict[str, tuple] = {}
DIAGNOSE = next(command for command in COMMANDS if command.startswith("modgap diagnose"))


@pytest.fixture(scope="module")
def follow(request, tmp_path_factory):
    """A set by name, in two files, and what the commands of the tour printed on them."""

    def follow(name, commands=COMMANDS):
        if name not in MADE:
            folder = tmp_path_factory.mktemp(name)
            X, Y = rows_of(name, request)
            save(folder, X, Y)
            MADE[name] = folder, X, Y, {}
        folder, *_, printed = MADE[name]
        printed.update({one: run(one, folder) for one in commands if one not in printed})
        return MADE[name]

    return follow


def rows_of(name, request):
    if name == "digits":
        digits = load_digits()
        Y = digits.Y[digits.wording == 0]
        once = np.sort(np.unique(Y, axis=0, return_index=True)[1])  # scans of one caption are one
        return digits.X[once], Y[once]
    if name == "stretched":
        return stretched(request.getfixturevalue("published_clip"))
    return request.getfixturevalue(f"published_{name}")


def stretched(sides):
    """The same directions, at other lengths."""
    rng = np.random.default_rng(0)
    return [
        (rows * rng.lognormal(sigma=1.5, size=(len(rows), 1))).astype(np.float32) for rows in sides
    ]


# The stretched rows are those of clip at other lengths; unsplash is a set more.
@pytest.fixture(
    params=[
        "digits",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("stretched", "clip", "unsplash")),
    ]
)
def followed(request, follow):
    return follow(request.param)


def mixed_ndcg(image_documents, text_documents, text_queries, correction, seed=0):
    """NDCG@10 of text queries whose image is in an index of half images, half texts; loops."""
    n = len(text_queries)
    order = np.random.default_rng(seed).permutation(n)
    halves = [set(order[: round(n / 2)].tolist())]
    halves.append(set(range(n)) - halves[0])
    gains = []
    for images in halves:
        held = {"image": sorted(images), "text": sorted(set(range(n)) - images)}
        index = {
            "image": np.array(image_documents[held["image"]], np.float64),
            "text": np.array(text_documents[held["text"]], np.float64),
        }
        for query in images:
            asked = np.asarray(text_queries[query], np.float64)
            scores = {name: stored @ asked for name, stored in index.items()}
            if correction.metric == "cosine":
                for name, stored in index.items():
                    scores[name] /= np.linalg.norm(stored, axis=1)
            best = first_ten(held, scores, correction.background)
            gains.append(1 / np.log2(best.index(query) + 2) if query in best else 0.0)
    return float(np.mean(gains))


def first_ten(held, scores, background):
    """The best documents of both lists: by score, or merged as the tour says."""
    order = {name: np.argsort(-one, kind="stable") for name, one in scores.items()}
    if background is not None:
        lists = {
            name: (np.array(held[name])[order[name]][None], one[order[name]][None])
            for name, one in scores.items()
        }
        return merge(lists, 10, background).ids[0].tolist()
    every = np.concatenate([*scores.values()])
    owners = [owner for name in scores for owner in held[name]]
    return [owners[place] for place in np.argsort(-every, kind="stable")[:10]]


def promised(printed: str) -> float:
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", printed).split())
    return float(re.search(r"goes from [\d.]+ to ([\d.]+) \(", words)[1])


def searched(folder: Path) -> float:
    """What the vectors that the tour's commands wrote give, ranked as they say."""
    correction = Correction.load(folder / "out" / "correction.safetensors")
    names = ("image-documents", "text-documents", "text-queries")
    return mixed_ndcg(*(np.load(folder / f"{name}.npy") for name in names), correction)


def test_the_readme_begins_as_the_tour_does():
    assert commands(README) == COMMANDS[:2]


def test_the_tour_has_the_commands_of_the_whole_way():
    assert [command.split()[1] for command in COMMANDS] == [
        "fix", "fixed/search.py", "diagnose", "apply", "apply", "apply", "index", "index",
    ]  # fmt: skip


def test_an_index_made_as_the_tour_says_gives_what_the_verdict_printed(
    followed, tmp_path, record_property
):
    folder, X, Y, printed = followed
    figure = promised(printed[DIAGNOSE])
    assert promised(printed[COMMANDS[0]]) == figure
    # The same commands on the rows that confirm, with the correction of the rows that fit.
    splits = split(Modalities.of(X, Y), 0)
    save(tmp_path, splits.confirm.X, splits.confirm.Y)
    save(tmp_path / "fit", splits.fit.X, splits.fit.Y)
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", printed[DIAGNOSE]).split())
    method, settings = re.search(r"Use (\w+)\((.*?)\):", words).groups()
    option = re.sub(r"(?<!^)(?=[A-Z])", "-", method).lower()
    chosen = " ".join(f"--set {one}" for one in settings.replace("'", "").split(", ") if one)
    (tmp_path / "out").mkdir()
    run(
        f"modgap fit fit/image.npy fit/text.npy --method {option} {chosen} "
        "-o out/correction.safetensors",
        tmp_path,
    )
    for command in COMMANDS:
        if command.startswith("modgap apply"):
            run(command, tmp_path)
    found, whole = searched(tmp_path), searched(folder)
    record_property("printed, found, whole index", (figure, found, whole))
    print(f"printed {figure:.3f}, found {found:.3f}, in the whole index {whole:.3f}")
    assert found == pytest.approx(figure, abs=0.02)
    stated = re.search(r"On all [\d,]+ pairs.*? to (\d\.\d+)", printed[DIAGNOSE], re.S)
    assert float(stated[1]) == pytest.approx(whole, abs=0.02)


def test_the_search_of_the_readme_answers_with_images_and_texts(followed):
    *_, printed = followed
    lines = printed["python fixed/search.py"].splitlines()
    found = {line.split()[1] for line in lines if not line.startswith("query")}
    assert found == {"image", "text"}


@pytest.mark.published
def test_the_readme_shows_what_fix_and_search_print_on_the_published_rows(follow):
    *_, printed = follow("clip", COMMANDS[:2])
    found = " ".join(re.sub(r"[│╭╮╰╯─]", " ", " ".join(printed.values())).split())
    shown = re.findall(r"^```text\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    assert len(shown) == 2
    for block in shown:
        assert " ".join(block.split()) in found


def test_lengths_of_rows_change_nothing_that_is_printed(published_clip, tmp_path):
    few = [rows[:, :64] for rows in published_clip]
    printed = []
    for name, sides in (("given", few), ("stretched", stretched(few))):
        save(tmp_path / name, *sides)
        printed.append(run(DIAGNOSE, tmp_path / name))
    assert "Use " in printed[0]
    assert printed[0] == printed[1]
