"""Configs: what a file says holds, what it does not know is refused with the nearest name."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from command_line import python
from modgap.train.config import Config, differences
from modgap.train.config_files import PRESETS, list_presets, load_config
from modgap.train.learner import Schedule


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path):
    path = write(tmp_path / "run.toml", "[train]\nepochs = 7\nlearning_rate = 1\n")
    config = load_config(path)
    assert config.train.epochs == 7
    assert config.train.learning_rate == 1.0
    assert isinstance(config.train.learning_rate, float)
    assert config.data == Config().data


def test_overrides_are_written_as_in_toml_or_as_plain_text(tmp_path):
    path = write(tmp_path / "run.toml", "[train]\nepochs = 7\n")
    config = load_config(
        path,
        ["train.epochs=9", "train.betas=[0.8, 0.9]", "loss.chunked=true", "data.path=a b.parquet",
         "temperature.name = S3"],
    )  # fmt: skip
    assert (config.train.epochs, config.train.betas, config.loss.chunked) == (9, (0.8, 0.9), True)
    assert (config.data.path, config.temperature.name) == ("a b.parquet", "S3")


def test_a_temperature_named_anew_loses_the_settings_of_the_one_before(tmp_path):
    assert load_config("flickr8k-baseline").temperature.rate == 20
    assert load_config("flickr8k-fixed").temperature.options() == {}
    swapped = ["temperature.value=0.05", "temperature.name=fixed"]
    assert load_config("flickr8k-baseline", swapped).temperature.options() == {"value": 0.05}
    kept = load_config("flickr8k-baseline", ["temperature.initial=0.1"]).temperature
    assert (kept.name, kept.options()) == ("baseline", {"initial": 0.1, "rate": 20})


@pytest.mark.parametrize("name", ["mine.toml", "digits.toml"], ids=["a name", "the preset's name"])
def test_a_file_extends_a_preset(name, tmp_path):
    path = write(tmp_path / name, 'extends = "digits"\n[train]\nepochs = 2\n')
    mine, preset = load_config(path), load_config("digits")
    assert mine.train.epochs == 2
    assert mine.train.batch_size == preset.train.batch_size == 200
    assert mine.temperature == preset.temperature


def test_a_config_survives_json(tmp_path):
    config = load_config("digits")
    path = write(tmp_path / "config.json", json.dumps(config.to_dict()))
    assert load_config(path) == config


@pytest.mark.parametrize("name", sorted(path.stem for path in PRESETS.glob("*.toml")))
def test_every_preset_loads_and_says_what_it_is(name):
    about = list_presets()[name]
    load_config(name)
    assert about["description"]
    assert about["command"].startswith(f"modgap train {name} ")
    assert about["time"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[trian]\nepochs = 1",
            r"A section must be one of 'data', .*got 'trian'\. Did you mean 'train'\?",
        ),
        ("[train]\nepoch = 1", r"A setting of \[train\] must be one .*Did you mean 'epochs'\?"),
        ("[train]\nepochs = 1.5", "train.epochs must be a whole number, got 1.5"),
        ("[train]\nepochs = true", "train.epochs must be a whole number, got True"),
        ("[loss]\nchunked = 1", "loss.chunked must be true or false, got 1"),
        ("[data]\npath = 1", "data.path must be text, got 1"),
        ("[train]\nbetas = 0.9", "train.betas must be a list, got 0.9"),
        ("[train]\nbetas = [0.9]", r"train.betas must be a list of 2, got \[0.9\]"),
        ("[train]\nepochs = -1", "train.epochs must be at least 0, got -1"),
        ("[train]\nbatch_size = 1", "train.batch_size must be at least 2, got 1"),
        ("[train]\nlearning_rate = 0", "train.learning_rate must be above 0, got 0.0"),
        ("[train]\nlearning_rate = nan", "train.learning_rate must be a finite number, got nan"),
        ("[train]\nweight_decay = inf", "train.weight_decay must be a finite number, got inf"),
        ("[train]\nweight_decay = -1", "train.weight_decay must be at least 0, got -1.0"),
        ("[train]\nbetas = [0.9, 1]", "train.betas must be at least 0 and below 1, got 1.0"),
        ("[train]\neps = -1", "train.eps must be at least 0, got -1.0"),
        ("[train]\nthreads = -1", "train.threads must be at least 0, got -1"),
        (
            "[train]\nseed = 4294967296",
            "train.seed must be at least 0 and at most 4294967295, got 4294967296",
        ),
        (f"[data]\nvocab_size = {2**70}", "data.vocab_size must be at most 9,007,199,254,740,992"),
        (f"[train]\nlearning_rate = {10**400}", "train.learning_rate must be at most"),
        ("[data]\nworkers = -1", "data.workers must be at least 0, got -1"),
        ("[data]\nheld_out = 1", "data.held_out must be above 0 and below 1, got 1.0"),
        ("[data]\nmax_corrupt = 2", "data.max_corrupt must be at least 0 and at most 1, got 2.0"),
        ("[train]\nwarmup = 2", "train.warmup must be at least 0 and at most 1, got 2.0"),
        ('[train]\nschedule = "cosin"', "train.schedule must be one of .*Did you mean 'cosine'"),
        ('[swap]\nkind = "harder"', "swap.kind must be one of"),
        ("[swap]\nprobability = 1.5", "swap.probability must be at least 0 and at most 1, got 1.5"),
        ('[train]\nloggers = ["tensorbord"]', "Did you mean 'tensorboard'"),
        (
            "[loss]\nchunked = true\nmask_identical = true",
            "which loss.chunked never holds. Choose one",
        ),
        ("train = 3", r"\[train\] must be a section of settings, got 3"),
        ("[train\n", "cannot be read as a config"),
        ('extends = "nothing"', "no preset of that name"),
        ('extends = "run"', "no preset of that name|extends itself"),
        ("extends = 3", "extends must name a preset, got 3"),
        ('extends = "digits"\ntrain = 3', r"\[train\] must be a section of settings, got 3"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(tmp_path, text, words):
    path = write(tmp_path / "run.toml", text)
    with pytest.raises((ValueError, TypeError), match=words):
        load_config(path)


def test_files_that_are_no_config_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = write(tmp_path / "one.toml", 'extends = "two.toml"\n')
    write(tmp_path / "two.toml", 'extends = "one.toml"\n')
    with pytest.raises(ValueError, match=r"one\.toml extends itself; extends must name another"):
        load_config(one)
    one.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"one\.toml cannot be read as a config: 'utf-8' codec"):
        load_config(one)
    with pytest.raises(ValueError, match=r"no config file 'digit'.*Did you mean 'digits'\?"):
        load_config("digit")


@pytest.mark.parametrize("setting", ["epochs=5", "train.epochs", "=", "train"])
def test_a_setting_must_name_its_section_and_value(setting):
    with pytest.raises(ValueError, match=r"section\.name=value, such as train\.epochs=5"):
        load_config("digits", [setting])


def test_only_what_moves_weights_counts_as_a_difference():
    old = load_config("digits").to_dict()
    new = load_config(
        "digits", ["train.epochs=5", "train.log_every=3", "evaluate.every=7", "data.workers=2"]
    ).to_dict()
    assert differences(old, new) == ["train.epochs (350, now 5)"]


def test_reading_a_config_and_listing_presets_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from modgap.train import load_config, list_presets\n"
        "print(load_config('digits').train.epochs, len(list_presets()) > 0)\n"
        "try:\n    from modgap.train import train\n"
        "except ImportError as error: print(error)"
    )
    first, second = python(code).splitlines()
    assert first == "350 True"
    assert second.endswith("pip install 'modgap[train]'")


def test_the_cosine_schedule_warms_up_and_ends_at_nothing():
    schedule = Schedule("cosine", total=100, warmup=0.1, beta=0.9)
    rates = [schedule.share(step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * k for k in range(1, 11)])
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(0.5 * (1 + math.cos(math.pi * 89 / 90)))
    assert schedule.beta_1(50) == 0.9
    assert Schedule("constant", 100, 0.1, 0.9).share(99) == 1.0
    assert Schedule("cosine", total=10, warmup=0, beta=0.9).share(0) == 1.0


@pytest.mark.parametrize("total", [7, 1400])
def test_one_cycle_is_that_of_torch(total):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    optimiser = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=3.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3.0, total_steps=total)
    ours = Schedule("one-cycle", total, warmup=0.5, beta=0.9)
    for step in range(total):
        group = optimiser.param_groups[0]
        assert 3 * ours.share(step) == pytest.approx(group["lr"], rel=1e-9, abs=1e-12)
        assert ours.beta_1(step) == pytest.approx(group["betas"][0], rel=1e-9)
        optimiser.step()
        if step + 1 < total:
            theirs.step()
