"""From files of images and captions to what a run trains on, and what it holds out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training import bars_config

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import every, load_data, train  # noqa: E402


def test_training_and_held_out_data_may_lie_in_files_of_their_own_as_cocos_do(tmp_path):
    """Captions in two JSON files, photos in two folders, and names that say neither."""
    from PIL import Image

    for part, n, colour in (("train2017", 9, "red"), ("val2017", 4, "blue")):
        (tmp_path / part).mkdir()
        images, annotations = [], []
        for k in range(n):
            name = f"{k:012d}.jpg"
            Image.new("RGB", (40, 40), colour).save(tmp_path / part / name)
            images.append({"id": k, "file_name": name})
            annotations.append({"id": k, "image_id": k, "caption": f"{colour} number {k}"})
        written = json.dumps({"images": images, "annotations": annotations})
        (tmp_path / f"captions_{part}.json").write_text(written)
    where = {
        "images": str(tmp_path / "train2017"),
        "test_path": str(tmp_path / "captions_val2017.json"),
        "test_images": str(tmp_path / "val2017"),
    }
    data = load_data(bars_config(tmp_path / "captions_train2017.json", data=where).data)
    assert (len(data.train), len(data.test)) == (9, 4)
    # The same names in two folders: red is trained on, blue held out.
    assert data.train.pixels[:, 0].float().mean() > 200 > 60 > data.test.pixels[:, 0].float().mean()
    with pytest.raises(ValueError, match="There is no data at nowhere"):
        load_data(
            bars_config(tmp_path / "captions_train2017.json", data={"images": "nowhere"}).data
        )


@pytest.mark.parametrize("splits", [None, ["train"]], ids=["no splits", "only training"])
def test_data_without_a_held_out_split_has_a_share_held_out(splits, bars, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(bars).drop_columns("split")
    if splits is not None:
        table = table.append_column("split", pa.array(splits * len(table)))
    pq.write_table(table, tmp_path / "bars.parquet")
    shares = [
        load_data(bars_config(tmp_path / "bars.parquet", data=settings).data)
        for settings in ({"held_out": 0.25}, {"held_out": 0.25, "split_seed": 1})
    ]
    for data in shares:
        assert (len(data.train), len(data.test)) == (39, 13)
    assert not torch.equal(shares[0].test.pixels, shares[1].test.pixels)


def test_what_is_held_out_does_not_depend_on_the_seed_of_the_training(bars, tmp_path):
    """Runs of several seeds are measured on the same images, and none was trained on them."""
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(bars).drop_columns("split"), tmp_path / "bars.parquet")
    kept = []

    def keep(state):
        kept.append(state.data.test.pixels.clone())

    for seed in (0, 1):
        config = bars_config(tmp_path / "bars.parquet", train={"steps": 1, "seed": seed})
        train(config, output=tmp_path / f"run{seed}", hooks=[every(9, keep)])
    assert torch.equal(kept[0], kept[-1])


def test_a_tokenizer_can_be_given(bars, tmp_path):
    from modgap.train.towers.tokenizer import train_tokenizer

    words = train_tokenizer(["a red bar", "a blue bar on the left"], vocab_size=300)
    words.save(tmp_path / "words.json")
    data = load_data(bars_config(bars, data={"tokenizer": str(tmp_path / "words.json")}).data)
    expected = words(["a red bar"], 16)
    assert torch.equal(data.tokenizer(["a red bar"], 16), expected)
    assert data.vocab_size == words.vocab_size


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [("temperature", "FLT0.05", "temperature must be one of"), ("model", "resnet19", "resnet18")],
)
def test_a_name_that_means_nothing_is_found_before_the_data_is_read(section, name, words, tmp_path):
    config = bars_config(tmp_path / "nowhere.parquet", **{section: {"name": name}})
    with pytest.raises(ValueError, match=words):
        train(config, output=tmp_path / "run")


def test_corrupt_images_are_counted_and_their_captions_left_out(bars, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(bars).to_pylist()
    rows[1]["image"] = b"no image"
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "bars.parquet")
    config = bars_config(tmp_path / "bars.parquet", data={"max_corrupt": 0.1}, train={"epochs": 1})
    with pytest.warns(UserWarning, match=r"^1 of 40 images could not be read: 1\.png \("):
        data = load_data(config.data)
    assert data.corrupt == ("1.png",)
    assert (len(data.train), len(data.train.tokens)) == (39, 78)
    assert train(config, output=tmp_path / "run", data=data).n_corrupt == 1


def test_data_that_is_nowhere_says_how_to_name_it(bars, tmp_path, monkeypatch):
    config = bars_config(Path("bars.parquet"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"no data at bars.parquet.*environment variable MODGAP_D"):
        load_data(config.data)
    monkeypatch.setenv("MODGAP_DATA", str(bars.parent))
    assert len(load_data(config.data).train) == 40
