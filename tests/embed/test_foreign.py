"""Models of strangers: no code of theirs is run, nothing outside their folder is read."""

from __future__ import annotations

import json
import shutil
import sys
import types
from pathlib import Path

import pytest

from embedders import write_model
from modgap.core.checks import MissingExtraError, require
from modgap.embed.opening import open_model
from modgap.train.towers.foreign import check_shards, never_asked

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("PIL.Image", reason="Pillow is not installed")

CODE = """
import pathlib, transformers
pathlib.Path({mark!r}).write_text("run")
class Config(transformers.CLIPConfig): model_type = "strange"
class Model(transformers.CLIPModel): pass
class Processor(transformers.CLIPImageProcessor): pass
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("whole"), "clip")


@pytest.fixture
def folder(whole, tmp_path):
    """A CLIP with a file of code beside it, which notes that it was run."""
    place = tmp_path / "model"
    shutil.copytree(whole, place)
    (place / "code.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    return place


@pytest.fixture(autouse=True)
def answers_yes(monkeypatch):
    """A user, or a pipe, that says yes to every question."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")


def change(path, **settings):
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


OWN = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("config.json", {"model_type": "strange", "auto_map": OWN}),
        (
            "preprocessor_config.json",
            {"image_processor_type": "P", "auto_map": {"AutoImageProcessor": "code.Processor"}},
        ),
    ],
)
def test_code_in_a_folder_is_refused_and_nobody_is_asked(file, settings, folder, tmp_path):
    change(folder / file, **settings)
    with pytest.raises(ValueError, match="it brings code of its own, which is not run"):
        open_model(f"hf:{folder}")
    assert not (tmp_path / "mark").exists()


def test_kernels_of_the_hub_are_not_fetched(folder):
    change(folder / "config.json", _attn_implementation="stranger/kernel")
    for seed in (None, 0):
        with pytest.raises(ValueError, match="asks for the code 'stranger/kernel' of the hub"):
            open_model(f"hf:{folder}", random=seed)


class Harmful:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.write_text, (self.mark, "run"))


def test_a_pickle_that_would_run_is_refused(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Harmful(tmp_path / "mark")}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="its weights are a pickle of more than tensors"):
        open_model(f"hf:{folder}")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("name", ["../outside.safetensors", "/outside.safetensors", "..", 5, None])
def test_a_list_of_weights_leads_nowhere_else(folder, name):
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    listed = {"metadata": {}, "weight_map": {"logit_scale": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listed))
    with pytest.raises(ValueError, match="files elsewhere are not read"):
        open_model(f"hf:{folder}")


def test_shards_beside_their_list_are_read(folder):
    network = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    network.save_pretrained(folder, max_shard_size="8KB")
    check_shards(folder)
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert open_model(f"hf:{folder}").dim == 12


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b'{"a": ' * 100_000),
        ("config.json", b'{"model_type": "clip", "text_config": [1, 2]}'),
        ("config.json", b'{"model_type": "clip", "projection_dim": -4}'),
        ("tokenizer.json", b"[" * 100_000),
        ("model.safetensors", (2**40).to_bytes(8, "little") + b"{}"),
        ("model.safetensors", b"cut"),
        ("preprocessor_config.json", b'{"image_processor_type": "CLIPImageProcessor", '
                                     b'"image_mean": "x"}'),
        ("preprocessor_config.json", b'{"image_processor_type": "CLIPImageProcessor", '
                                     b'"size": {"height": 90000, "width": 90000}}'),
    ],
)  # fmt: skip
def test_damaged_files_are_one_sentence(folder, file, content):
    (folder / file).write_bytes(content)
    with pytest.raises(ValueError) as raised:
        open_model(f"hf:{folder}")
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1e9])
def test_a_scale_that_is_none_gives_no_temperature(folder, scale):
    network = transformers.AutoModel.from_pretrained(folder)
    with torch.no_grad():
        network.logit_scale.fill_(scale)
    network.save_pretrained(folder)
    assert open_model(f"hf:{folder}").temperature is None


def test_libraries_between_do_not_ask_either(folder, tmp_path):
    change(folder / "config.json", model_type="strange", auto_map=OWN)
    with never_asked(), pytest.raises(ValueError, match="trust_remote_code"):
        transformers.AutoConfig.from_pretrained(folder)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("file", ["modules.json", "router_config.json"])
def test_modules_of_sentence_transformers_are_its_own(folder, tmp_path, file):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    own = "sentence_transformers.base.modules.router.Router"
    kind = "code.Module" if file == "modules.json" else own
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    routes = {"types": {"0": "code.Module"}, "structure": {"query": ["0"]}, "parameters": {}}
    (folder / "router_config.json").write_text(json.dumps(routes))
    with pytest.raises(ValueError, match="it brings code of its own, which is not run"):
        open_model(f"st:{folder}")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("place", ["../../secret", "{home}/secret", "link"])
def test_weights_of_onnx_lie_beside_their_file(folder, tmp_path, place):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "onnx").mkdir()
    (folder / "onnx" / "link").symlink_to(tmp_path / "secret")
    shift = onnx.TensorProto(name="shift", data_type=1, dims=[4], data_location=1)
    shift.external_data.add(key="location", value=place.format(home=tmp_path))
    rows = [onnx.helper.make_tensor_value_info(name, 1, [None, 4]) for name in "xy"]
    node = onnx.helper.make_node("Add", ["x", "shift"], ["y"])
    graph = onnx.helper.make_graph([node], "tower", rows[:1], rows[1:], [shift])
    opset = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    for tower in ("vision_model", "text_model"):
        (folder / "onnx" / f"{tower}.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="cannot be read by onnxruntime"):
        open_model(f"onnx:{folder}")


@pytest.mark.parametrize("name", ["onnxruntime", "sentence_transformers"])
def test_libraries_that_read_models_less_safely_are_refused(folder, monkeypatch, name):
    old = types.ModuleType(name)
    old.__version__ = {"onnxruntime": "1.23.2", "sentence_transformers": "5.4.1"}[name]
    monkeypatch.setitem(sys.modules, name, old)
    kind = {"onnxruntime": "onnx", "sentence_transformers": "st"}[name]
    with pytest.raises(MissingExtraError, match=f"pip install -U {name.replace('_', '-')}"):
        open_model(f"{kind}:{folder}")


def test_versions_are_compared_as_numbers(monkeypatch):
    library = types.ModuleType("a_library")
    monkeypatch.setitem(sys.modules, "a_library", library)
    for version in ("2.13.0+cpu", "2.6", "2.6.0rc1"):
        library.__version__ = version
        assert require("a_library", "x", "It", since="2.6") is library
    library.__version__ = "2.5.1"
    with pytest.raises(MissingExtraError, match=r"needs a-library 2\.6 or newer, got 2\.5\.1"):
        require("a_library", "x", "It", since="2.6")
