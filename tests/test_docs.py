"""Docs that run: every doctest of the package, and what the README tells people to do."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import runpy
import shlex
import sys
import tomllib
import warnings
import wave
from pathlib import Path

import numpy as np
import pytest

import modgap
from command_line import modgap as command
from conftest import load_published
from embedders import sounds, write_model
from encoders import CAPTIONS
from hub_server import own_hub
from modgap.arrays import unit
from modgap.datasets import load_digits
from modgap.train import load_config
from modules import MODULES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_are_right(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_some_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = sum(
        bool(test.examples)
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
    )
    assert examples >= 20


def read(page: str) -> str:
    """A page by its name; where a page of measurements has the same one, its folder is named."""
    here = list((ROOT / "docs").rglob(page))
    (path,) = [one for one in here if len(here) == 1 or one.parent.name != "evidence"]
    return path.read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    return [text for label, text in fenced if label == language]


def test_the_python_of_the_readme_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "0.56"
    (shown,) = re.findall(r"# (Use .*) …$", code, flags=re.MULTILINE)
    assert printed[1].startswith(shown)
    assert {"image", "text"} <= set(re.findall(r"'(\w+)'", printed[-1]))
    assert (tmp_path / "report.html").is_file()
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


def test_the_readme_fits_one_screen_and_its_numbers_are_on_the_pages_it_links():
    assert len(README) <= 6000
    table = README.partition("## Only in modgap")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [A-Z].*\]\((\S+?)(?:#.*)?\)\) \|$", table, flags=re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| [A-Z]", table, flags=re.MULTILINE)) >= 5
    for row, page in re.findall(r"^(\| [A-Z].*\]\((docs/[\w/-]+\.md).*)$", table, re.MULTILINE):
        evidence = (ROOT / page).read_text(encoding="utf-8")
        for number in re.findall(r"(?<![\w.])\d*\.\d+", row):
            assert number in evidence, f"{number} is not in {page}"


def test_the_readme_of_a_release_installs_by_name_and_has_no_relative_link():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    made = README
    for one in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        made = re.sub(one["pattern"], one["replacement"], made)
    assert "\npip install modgap\n" in made
    assert "pip install ." not in made
    targets = re.findall(r"\]\(([^)]+)\)", made)
    home = (
        r"https://(?:raw\.githubusercontent|github)\.com/modgap/modgap/(?:blob/)?v\$HFPR_VERSION/"
    )
    assert len(targets) > 10
    for target in targets:
        assert re.match(home, target), target
        assert (ROOT / re.sub(home, "", target).partition("#")[0]).exists()


def test_the_python_of_the_page_docs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two, many = blocks("python", read("page.md"))
    names: dict[str, object] = {}
    exec(compile(two, "page.md", "exec"), names)
    assert "Use ExpectedWrong(" in capsys.readouterr().out
    assert (tmp_path / "report.html").is_file()
    exec(compile(many, "page.md", "exec"), names)
    assert f"# {capsys.readouterr().out.strip()}\n" in many


def follow(page: str, capsys) -> None:
    """Run the Python and the commands of a page in order; comments say what is printed.

    Of a command these are some of its lines.
    """
    names: dict[str, object] = {}
    text, *_ = re.split(ENDS.get(page, "$^"), read(page), maxsplit=1)
    for language, code in re.findall(r"^```(python|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        said = re.findall(r"^ *# (.+)$", code, flags=re.MULTILINE)
        if language == "python":
            exec(compile(code, page, "exec"), names)
            assert capsys.readouterr().out.splitlines() == said
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            ran = [
                command(*shlex.split(line)[1:])
                for line in code.splitlines()
                if line.startswith("modgap ")
            ]
        assert ran
        assert [one.err for one in ran if one.status != 0] == []
        printed = "".join(one.out + one.err for one in ran).splitlines()
        assert [line for line in said if line not in map(str.strip, printed)] == []


PAGES = {
    "shards.md": (),
    "engines.md": ("lance",),
    "expected-wrong.md": (),
    "export.md": ("qdrant_client",),
    "new-model.md": ("faiss",),
    "drift.md": ("prometheus_client", "faiss"),
    "inputs.md": ("torch", "polars", "pandas", "datasets"),
    "scores.md": ("faiss", "bm25s"),
}
# What follows this heading has tests of its own.
ENDS = {"scores.md": "## A probability for every hit"}


# Libraries that a how-to needs, besides the core.
HOW_TO_NEEDS = {
    "audio-and-text.md": ("transformers", "faiss"),
    "clip-scores-around-0.25.md": ("faiss",),
    "hybrid-search-with-images.md": ("bm25s",),
    "images-and-documents-in-one-index.md": ("faiss",),
    "quantised-clip-search.md": ("faiss",),
}


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs/how-to").iterdir()))
def test_a_how_to_is_short_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    for library in HOW_TO_NEEDS.get(page, ()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    if page == "audio-and-text.md":
        write_model(tmp_path / "laion" / "clap-htsat-unfused", "clap")
        write_sounds(tmp_path / "sounds")
    assert len(read(page).splitlines()) <= 60
    follow(page, capsys)


def write_sounds(folder: Path) -> None:
    """Sounds as files, and a table of their captions."""
    folder.mkdir()
    lines = ["audio,caption"]
    for place, sound in enumerate(sounds(24)):
        with wave.open(str(folder / f"{place}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((sound * 32767).astype("<i2").tobytes())
        lines.append(f"{place}.wav,{CAPTIONS[place % len(CAPTIONS)]} {place}")
    (folder / "captions.csv").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.published
def test_the_cosines_of_clip_in_the_how_to_are_those_of_the_published_rows():
    image, text = (unit(rows) for rows in load_published("features_clip.npy"))
    others = ~np.eye(len(image), dtype=bool)
    said = read("clip-scores-around-0.25.md").replace("\n", " ")
    match, foreign = np.mean(np.sum(image * text, axis=1)), (image @ text.T)[others].mean()
    assert f"its caption a cosine of {match:.2f} on average" in said
    assert f"another caption {foreign:.2f}" in said
    assert f"two captions of different photos {(text @ text.T)[others].mean():.2f}" in said


def test_the_page_of_sharing_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with own_hub(monkeypatch, tmp_path / "cache"):
        follow("share.md", capsys)


@pytest.mark.integrations
def test_the_page_of_encoders_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    for library in ("langchain_chroma", "llama_index", "mteb"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "clip-ViT-B-32", "clip")
    import mteb

    example = runpy.run_path(str(ROOT / "examples" / "mteb_report.py"))
    tasks = [example["DigitTask"](40, first) for first in (0, 40)]
    monkeypatch.setattr(mteb, "get_tasks", lambda names: tasks)
    monkeypatch.setattr(mteb, "get_model", lambda name: example["DigitModel"]())
    follow("encoders.md", capsys)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    for library in PAGES[page]:
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # what a page writes it may import
    follow(page, capsys)


def test_the_python_of_the_embedding_page_runs_and_prints_what_it_says(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for code in blocks("python", read("embedding.md")):
        exec(compile(code, "embedding.md", "exec"), {})
        said = re.findall(r"^print\(.*\)  # (.+)$", code, flags=re.MULTILINE)
        printed = capsys.readouterr().out.splitlines()
        assert said
        assert set(said) - set(printed) <= {"the bytes of bee.jpg"}


def test_the_python_of_the_training_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    watch, parts, use = blocks("python", read("training.md"))
    exec(compile(watch + parts, "training.md", "exec"), {})
    assert "contrastive_loss" in capsys.readouterr().out
    assert json.loads((tmp_path / "log.jsonl").read_text())["step"] == 500

    pytest.importorskip("transformers", reason="transformers is not installed")
    from PIL import Image

    from modgap.train import train
    from training import bars_config, write_captions

    config = bars_config(write_captions(tmp_path), train={"steps": 1})
    train(config, output=tmp_path / "run")
    Image.new("RGB", (50, 40), "red").save("photo.jpg")
    found: dict = {}
    exec(compile(use, "training.md", "exec"), found)
    assert found["X"].shape == found["Y"].shape == (1, 32)


def test_the_config_of_the_training_page_is_one(tmp_path):
    (text,) = blocks("toml", read("training.md"))
    (tmp_path / "my.toml").write_text(text)
    config = load_config(tmp_path / "my.toml")
    assert (config.temperature.name, config.train.batch_size) == ("S3", 512)
    assert config.train.epochs == load_config("flickr8k-baseline").train.epochs


@pytest.mark.parametrize("name", ["training", "networks", "rephrasing"])
def test_the_tables_of_a_page_of_runs_are_those_of_the_results(name, tmp_path, monkeypatch):
    page = ROOT / "docs" / "evidence" / f"{name}.md"
    copy = tmp_path / page.name
    copy.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.setattr(sys, "argv", [name])
    made = runpy.run_path(str(ROOT / "tools" / f"make_{name}.py"))
    made["main"].__globals__["PAGE"] = copy
    made["main"]()
    assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_the_python_of_the_mixed_search_page_runs_and_both_ways_agree():
    names: dict = {}
    for code in blocks("python", read("mixed-search.md")):
        exec(compile(code, "mixed-search.md", "exec"), names)
    merged, n_images = names["merged"], len(names["images"])
    place = merged.ids + np.where(merged.modalities == "text", n_images, 0)
    assert place.tolist() == names["best"].tolist()


def test_the_python_of_the_page_of_figures_draws_with_every_function(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    monkeypatch.chdir(tmp_path)
    page = read("plots.md")
    names: dict = {}
    for code in blocks("python", page):
        exec(compile(code, "plots.md", "exec"), names)
    pyplot.close("all")
    assert {file.name for file in tmp_path.iterdir()} == {"recall.png", "panels.png", "sweep.png"}
    code = "\n".join(blocks("python", page))
    assert {name for name in modgap.plot.__all__ if f"plot.{name}(" not in code} == set()


def test_the_page_of_the_command_line_names_every_command():
    from modgap.cli import app

    (listed,) = blocks("", read("command-line.md"))
    named = set(re.findall(r"^modgap (\w+) ", listed, flags=re.MULTILINE))
    commands = {command.callback.__name__ for command in app.registered_commands}
    assert named == commands | {group.typer_instance.info.name for group in app.registered_groups}


def test_contributing_says_in_which_file_each_number_of_measure_is():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| `(\w+)` \| `(measures/\w+\.py)`", page, flags=re.MULTILINE)
    assert len(rows) >= 15
    for label, function, file in rows:
        source = (ROOT / "src" / "modgap" / file).read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{label}: {function} is not in {file}"
    digits = load_digits()
    said = " ".join(label for label, _, _ in rows)
    skipped = ("rows", "dim", "pairs")
    for line in modgap.measure(digits.X, digits.Y, groups=digits.groups).lines():
        words = re.sub(r" at [\d.]+(, [\d,]+ pairs)?$", "", line.label.strip()).removesuffix(
            "with two features"
        )
        assert line.term in skipped or words.partition(":")[0].strip() in said, line.label


def test_the_page_of_the_architecture_lists_every_package():
    listed = re.findall(r"^\| \[(\w+)/\]", read("architecture.md"), flags=re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / "src" / "modgap").glob("*/__init__.py")}
    assert {*listed} == folders


def test_every_link_of_the_docs_leads_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
