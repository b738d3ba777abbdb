"""``onnx:FOLDER``: towers exported to ONNX, as optimum and Xenova's collection lay them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_temperature, first_line, require
from modgap.core.results import spoken
from modgap.embed.model import Options, OutOfMemory, ReplicatedModel, Role
from modgap.embed.opening import near_folder, reading_model
from modgap.embed.processors import Processors
from modgap.train.towers.foreign import NO_CODE

EXTRA = "onnx"
# Before it, a file could name any other on the disk as its weights.
SAFE_SINCE = "1.24"
# The file of each tower, and what exports call its rows.
TOWERS = {
    "image": ("vision_model", ("image_embeds", "pooler_output")),
    "audio": ("audio_model", ("audio_embeds", "pooler_output")),
    "text": ("text_model", ("text_embeds", "sentence_embedding", "pooler_output")),
}
WHOLE = "model"
_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def open_by_name(
    name: str, options: Options, *, variant: str = "", temperature: float | None = None
) -> OnnxModel:
    """The towers of a folder, run by onnxruntime.

    Parameters
    ----------
    name : str
        A folder with config.json, preprocessor_config.json, tokenizer.json, and in it or in its
        folder ``onnx`` the files vision_model.onnx (or audio_model.onnx) and text_model.onnx, or
        model.onnx for all.
    options : Options
        GPUs need onnxruntime-gpu. A file has one precision, fixed weights and its own layers:
        anything else is refused.
    variant : str
        Which files: "fp16" takes vision_model_fp16.onnx, "quantized" vision_model_quantized.onnx.
    temperature : float, optional
        By which the model was trained to divide cosines; its files do not say it.
    """
    if options.random is not None or options.precision != "auto" or not options.norm_layers:
        raise InputValueError(
            "The weights, layers and precision of an ONNX file are fixed: leave out random, "
            "precision and norm_layers, or take the model as hf:NAME. variant='fp16' picks other "
            "files of the folder."
        )
    runtime = require("onnxruntime", EXTRA, "A model in ONNX", since=SAFE_SINCE)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputValueError(f"There is no folder {name}.{near_folder(folder)}")
    files = tower_files(folder, f"_{variant}" if variant else "")
    providers = find_providers(runtime, options.device)
    sessions = [
        {modality: _session(runtime, file, provider) for modality, file in files.items()}
        for provider in providers
    ]
    with reading_model("onnx", str(folder), "ONNX"):
        found = OnnxModel(f"onnx:{name}", folder, sessions, options)
    found.temperature = None if temperature is None else check_temperature(temperature)
    return found


class OnnxModel(ReplicatedModel):
    """Sessions of onnxruntime by modality, one set for each device."""

    def __init__(
        self, name: str, folder: Path, sessions: Sequence[Mapping[str, Any]], options: Options
    ) -> None:
        self.name = options.name(name)
        self.sessions, self.n_replicas = sessions, len(sessions)
        takes = {
            modality: {one.name for one in session.get_inputs()}
            for modality, session in sessions[0].items()
        }
        # model.onnx is the file of every modality, and embeds those that it has inputs for.
        of_inputs = {"image": "pixel_values", "audio": "input_features", "text": "input_ids"}
        self.modalities = tuple(m for m in TOWERS if of_inputs[m] in takes.get(m, ()))
        _check_modalities(name, self.modalities)
        self._outputs = {m: self._output(m) for m in self.modalities}
        self.processors = _processors(folder, self.modalities, options.input_normalisation)
        self.image_side = self.processors.image_side
        self.sampling_rate = self.processors.sampling_rate
        self._blanks: dict[str, Any] = {}
        for modality in self.modalities:
            self._blanks |= self.processors([self.blank(modality)], modality)
        self.dim = self.find_dim()

    def prepare_part(self, items: Sequence[Any], modality: str, role: Role) -> dict[str, Any]:
        """What the model's own processor makes of them."""
        return self.processors(items, modality)

    def part_rows(self, replica: int, prepared: Any, modality: str) -> np.ndarray:
        """Rows by the session of one device; what else a whole model takes is blank."""
        session = self.sessions[replica][modality]
        inputs: dict[str, np.ndarray] = {}
        for one in session.get_inputs():
            value = prepared.get(one.name, self._blanks.get(one.name))
            if value is None and one.name == "attention_mask":  # SigLIP's tokenizer makes none
                value = np.ones_like(prepared.get("input_ids", self._blanks["input_ids"]))
            if value is None:
                raise InputValueError(
                    f"{self.name} takes {one.name!r}, which its processor does not make."
                )
            inputs[one.name] = np.asarray(value).astype(_TYPES.get(one.type, np.float32))
        try:
            found: np.ndarray = session.run([self._outputs[modality]], inputs)[0]
        except Exception as error:  # onnxruntime's own classes; only their words say which
            if "allocate memory" not in str(error):
                raise
            raise OutOfMemory(
                f"There is not enough memory for this batch ({first_line(error)}). Lower the "
                "batch size."
            ) from error
        return found.astype(np.float32)

    def _output(self, modality: str) -> str:
        """The output that holds the rows of a modality."""
        outputs = {one.name: one.shape for one in self.sessions[0][modality].get_outputs()}
        for wanted in TOWERS[modality][1]:
            if wanted in outputs:
                return wanted
        if len(outputs) == 1 and len(next(iter(outputs.values())) or ()) == 2:
            return next(iter(outputs))
        raise InputValueError(
            f"The {modality} tower of {self.name} must give {spoken(TOWERS[modality][1])}, got "
            f"{spoken(outputs)}. Export it with its projection."
        )


def tower_files(folder: Path, suffix: str = "") -> dict[str, Path]:
    """The file of each modality; model.onnx where a tower has none of its own."""
    for place in (folder / "onnx", folder):
        found = {
            modality: place / f"{stem}{suffix}.onnx"
            for modality, (stem, _) in TOWERS.items()
            if (place / f"{stem}{suffix}.onnx").is_file()
        }
        if found:
            return found
        whole = place / f"{WHOLE}{suffix}.onnx"
        if whole.is_file():
            return dict.fromkeys(TOWERS, whole)
    there = sorted(path.name for path in (*folder.glob("onnx/*.onnx"), *folder.glob("*.onnx")))
    wanted = [f"{stem}{suffix}.onnx" for stem in ("vision_model", "text_model", WHOLE)]
    raise InputValueError(
        f"{folder} must hold onnx/{wanted[0]} and onnx/{wanted[1]}, or onnx/{wanted[2]}; it has "
        f"{spoken(there) if there else 'no file of ONNX'}."
    )


def find_providers(runtime: Any, device: str | None) -> list[Any]:
    """What onnxruntime computes by, for each device that a name means."""
    gpu = "CUDAExecutionProvider"
    has_gpu = gpu in runtime.get_available_providers()
    if device == "cpu" or (device is None and not has_gpu):
        return ["CPUExecutionProvider"]
    if not has_gpu:
        raise InputValueError(
            f"device is {device!r}, but onnxruntime finds no GPU here. Install onnxruntime-gpu in "
            "its place, or take 'cpu'."
        )
    if device == "cuda:all":
        from modgap.io.devices import find_devices

        return [(gpu, {"device_id": place.index}) for place in find_devices(device)]
    index = (device or "cuda").removeprefix("cuda").removeprefix(":") or "0"
    if not index.isdigit():
        raise InputValueError(f"device must be 'cpu', 'cuda' or 'cuda:0' …, got {device!r}.")
    return [(gpu, {"device_id": int(index)})]


def _session(runtime: Any, file: Path, provider: Any) -> Any:
    try:
        return runtime.InferenceSession(str(file), providers=[provider])
    except Exception as error:  # onnxruntime raises classes of its own
        raise InputValueError(
            f"{file} cannot be read by onnxruntime ({type(error).__name__})."
        ) from error


def _check_modalities(name: str, found: Sequence[str]) -> None:
    if "text" not in found or len(found) < 2:
        lacks = "text_model.onnx" if "text" not in found else "vision_model.onnx"
        embeds = f"{spoken(found)} only" if found else "nothing"
        raise InputValueError(
            f"{name} embeds {embeds}: a model needs a text tower and one for images or sounds. "
            f"Put {lacks} beside the others."
        )


def _processors(folder: Path, modalities: Sequence[str], normalise: bool) -> Processors:
    transformers = require("transformers", EXTRA, "A model in ONNX")
    for file, needed in (
        ("config.json", True),
        ("preprocessor_config.json", modalities != ("text",)),
        ("tokenizer.json", "text" in modalities),
    ):
        if needed and not (folder / file).is_file():
            raise InputValueError(f"{folder} has no {file}, as the model on the hub has.")
    config = transformers.AutoConfig.from_pretrained(folder, **NO_CODE)
    return Processors(transformers, str(folder), config, modalities, "np", normalise)
