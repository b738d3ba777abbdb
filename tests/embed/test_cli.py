"""From pictures to an index on the command line, with a tiny model made on the spot."""

from __future__ import annotations

import pytest

from command_line import modgap
from embedders import write_model
from modgap.io import open_pair
from photos import make_photos

pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return f"hf:{write_model(tmp_path_factory.mktemp('models') / 'clip', 'clip')}"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_photos(tmp_path_factory.mktemp("data") / "photos", 40, captions=2, broken=(3,))


# Random weights tell no pair from another.
@pytest.mark.filterwarnings("ignore:The image and text rows look unpaired")
def test_embed_writes_what_all_commands_read(model, photos, tmp_path):
    rows = tmp_path / "rows"
    done = modgap("embed", model, photos, "-o", rows, "--json")
    assert done.status == 0, done.err
    assert done.json["schema"] == "modgap/embed/2"
    assert done.json["rows"] == {"image": 39, "text": 78}
    assert "1 of 40 items could not be read: 3.png" in done.err
    measured = modgap("measure", rows, "--json")
    assert measured.status == 0, measured.err
    page = tmp_path / "report.html"
    told = modgap("report", rows, "--images", photos, "-o", page, "--no-umap")
    assert told.status == 0, told.err
    html = page.read_text()
    assert "data:image/jpeg;base64" in html
    assert "a photo 0, 0" in html
    again = modgap("embed", model, photos, "-o", rows)
    assert "40 of 40 items were there already" in again.err
    assert "not tried again; for that, remove" in again.err
    assert "not tried again" not in done.err
    assert f"modgap report {rows} --images {photos} -o report.html" in again.err


def test_the_help_of_fix_says_that_the_model_embeds():
    assert "the model that embeds" in " ".join(
        modgap("fix", "--help").out.replace("│", " ").split()
    )


@pytest.mark.filterwarnings("default:the documents were embedded by")
def test_fix_goes_from_pictures_to_an_index_that_is_searched_in_words(model, photos, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    fixed = tmp_path / "fixed"
    done = modgap("fix", "--model", model, "--data", photos, "-o", fixed, "--trust-pairs")
    assert done.status == 0, done.err
    assert (tmp_path / "fixed-rows" / "embed.json").is_file()
    index, correction = tmp_path / "fixed.faiss", fixed / "correction.safetensors"
    common = ("index", "search", index, correction, "-k", "5", "--json")
    by_words = modgap(*common, "--text", "a photo 7, 1", "--text", "a photo 8, 0",
                      "--only", "text")  # fmt: skip
    assert by_words.status == 0, by_words.err
    assert [ids[0] for ids in by_words.json["ids"]] == ["7.png#1", "8.png#0"]
    rows = open_pair(tmp_path / "fixed-rows")
    row = rows.y.captions.tolist().index("a photo 7, 1")
    by_row = modgap("index", "search", index, correction, tmp_path / "fixed-rows" / "text_emb",
                    "--row", row, "-k", "5", "--only", "text", "--json")  # fmt: skip
    assert by_row.json["ids"][0] == by_words.json["ids"][0]
    assert "warning" not in by_words.err
    other = f"hf:{write_model(tmp_path / 'other', 'clip', seed=1)}"
    by_other = modgap(*common, "--text", "a photo", "--model", other)
    assert by_other.status == 0, by_other.err
    assert f"embedded by {model}, the queries are by {other}" in by_other.err


def test_image_files_ask_through_links_and_are_refused_in_words(model, photos, tmp_path):
    fixed = tmp_path / "fixed"
    done = modgap("fix", "--model", model, "--data", photos, "-o", fixed, "--trust-pairs",
                  "--queries", "image")  # fmt: skip
    assert done.status == 0, done.err
    (tmp_path / "link.png").symlink_to(photos / "7.png")
    search = ("index", "search", tmp_path / "fixed.faiss", fixed / "correction.safetensors",
              "-k", "1", "--only", "image", "--json", "--image")  # fmt: skip
    assert modgap(*search, tmp_path / "link.png").json["ids"] == [["7.png"]]
    refused = modgap(*search, photos / "3.png")
    assert refused.status == 2
    assert "3.png cannot be used as an image" in refused.err


def test_pictures_by_class_lead_to_zero_shot(model, photos, tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        (tmp_path / "classes" / name / "a.png").write_bytes((photos / "1.png").read_bytes())
    done = modgap("embed", model, tmp_path / "classes", "-o", tmp_path / "rows")
    assert done.status == 0, done.err
    assert done.err.splitlines()[-1].startswith("next: modgap task zero_shot --model hf:")


def test_what_is_refused(model, photos, tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.png").write_bytes((photos / "1.png").read_bytes())
    out = ("-o", tmp_path / "out")
    for words, said in [
        (("embed", "clip", photos, *out), "A model is named by its library"),
        (("embed", "open-clip:B", photos, *out), "Did you mean 'open_clip'?"),
        (("embed", f"{model}x", photos, *out), "clip"),
        (("embed", model, tmp_path / "gone", *out), "There is no file or folder"),
        (("embed", model, photos, "--device", "cuda:7", *out), "cuda:7"),
        (("embed", model, photos, "--dtype", "int8", *out), "dtype must be one of"),
        (("fix", "--data", photos, *out), "--data needs --model"),
        (("fix", photos, *out), "Pictures are embedded first: modgap embed MODEL"),
        (("fix", "--model", model, "--data", tmp_path / "plain", *out), "it has no captions"),
        (("fix", photos, "--model", model, "--data", photos, *out), "brings its own data"),
    ]:
        done = modgap(*words)
        assert done.status == 2, (words, done.err)
        assert said in done.err
        assert len(done.err.strip().splitlines()) == 1
        assert done.out == ""
    assert not (tmp_path / "out").exists()
