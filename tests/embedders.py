"""Tiny random models of the kinds that modgap opens, written as their libraries write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from encoders import CAPTIONS, PIECES, SPECIAL, write_text_encoder

TEXTS = [*CAPTIONS[:5], "a dog", "two dogs run on the beach, and a red bar on the left: no"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
         "intermediate_size": 32}  # fmt: skip
PATCHES = {"image_size": 32, "patch_size": 8}
TOKENS = {"vocab_size": len(SPECIAL) + len(PIECES), "max_position_embeddings": 24,
          "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}  # fmt: skip
SIZE = {"height": 32, "width": 32}


def pictures(n: int = 7) -> list[Any]:
    """Images of Pillow in several shapes."""
    from PIL import Image

    rng = np.random.default_rng(5)
    return [
        Image.fromarray(rng.integers(256, size=(40 + 3 * k, 50, 3), dtype=np.uint8))
        for k in range(n)
    ]


def sounds(n: int = 4) -> list[np.ndarray]:
    """Noise of up to a second at 8 kHz."""
    rng = np.random.default_rng(6)
    return [rng.uniform(-0.5, 0.5, size=3000 + 1500 * k).astype(np.float32) for k in range(n)]


def write_tokenizer(folder: Path, **settings: Any) -> None:
    """A WordPiece vocabulary as a tokenizer of transformers."""
    import transformers

    transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", unk_token="[UNK]",
        model_max_length=20, **settings,
    ).save_pretrained(folder)  # fmt: skip


def write_model(folder: Path, kind: str, seed: int = 0, dim: int = 12) -> Path:
    """A CLIP, SigLIP, SigLIP 2, CLAP, ALIGN or BLIP, with what goes before the network."""
    import torch
    import transformers as t

    write_text_encoder(folder)  # for its tokenizer.json
    torch.manual_seed(seed)
    processor: dict[str, Any] = {"size": SIZE}
    settings: dict[str, Any] = {}
    if kind == "clip":
        network: Any = t.CLIPModel(
            t.CLIPConfig(
                vision_config={**SMALL, **PATCHES}, text_config={**SMALL, **TOKENS},
                projection_dim=dim, logit_scale_init_value=3.0,
            )
        )  # fmt: skip
        processor |= {"image_processor_type": "CLIPImageProcessor", "crop_size": SIZE}
    elif kind in ("siglip", "siglip2"):
        two = kind == "siglip2"
        vision = {"num_patches": 16, "patch_size": 8} if two else PATCHES
        of = (t.Siglip2Config, t.Siglip2Model) if two else (t.SiglipConfig, t.SiglipModel)
        text = {**SMALL, **TOKENS, "max_position_embeddings": 20, "projection_size": 16}
        network = of[1](of[0](vision_config={**SMALL, **vision}, text_config=text))
        processor = (
            {
                "image_processor_type": "Siglip2ImageProcessor",
                "patch_size": 8,
                "max_num_patches": 16,
            }
            if two
            else {**processor, "image_processor_type": "SiglipImageProcessor"}
        )
        settings = {"model_input_names": ["input_ids"]}
        with torch.no_grad():
            network.logit_scale.fill_(4.0)
            network.logit_bias.fill_(-9.0)
    elif kind == "clap":
        audio = {
            "spec_size": 32, "num_mel_bins": 16, "patch_size": 4, "patch_stride": [4, 4],
            "window_size": 4, "depths": [1, 1], "num_attention_heads": [2, 2], "hidden_size": 32,
            "patch_embeds_hidden_size": 16, "num_classes": 4, "projection_dim": dim,
        }  # fmt: skip
        network = t.ClapModel(
            t.ClapConfig(
                text_config={**SMALL, **TOKENS, "max_position_embeddings": 30,
                             "projection_dim": dim},
                audio_config=audio, projection_dim=dim,
            )
        )  # fmt: skip
        processor = {
            "feature_extractor_type": "ClapFeatureExtractor", "feature_size": 16,
            "sampling_rate": 8000, "hop_length": 160, "fft_window_size": 256, "max_length_s": 1,
            "frequency_max": 4000, "truncation": "rand_trunc", "padding": "repeatpad",
        }  # fmt: skip
    elif kind == "align":
        network = t.AlignModel(
            t.AlignConfig(
                text_config={**SMALL, **TOKENS},
                vision_config={
                    "image_size": 32, "width_coefficient": 1.0, "depth_coefficient": 0.1,
                    "hidden_dim": 16, "out_channels": [16, 24], "in_channels": [32, 16],
                    "kernel_sizes": [3, 3], "strides": [1, 2], "num_block_repeats": [1, 1],
                    "expand_ratios": [1, 2], "depthwise_padding": [], "hidden_size": 24,
                },
                projection_dim=24,
            )
        )  # fmt: skip
        processor |= {"image_processor_type": "EfficientNetImageProcessor"}
    else:
        network = t.BlipModel(
            t.BlipConfig(
                vision_config={**SMALL, **PATCHES},
                text_config={**SMALL, **TOKENS, "encoder_hidden_size": 16, "is_decoder": False},
                projection_dim=dim,
            )
        )
        processor |= {"image_processor_type": "BlipImageProcessor"}
    network.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    write_tokenizer(folder, **settings)
    return folder


def fake_open_clip(asked: dict[str, Any]) -> Any:
    """Stands in for open_clip: means of pixels, lengths of texts, notes of what it is asked."""
    from types import SimpleNamespace

    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logit_scale = torch.nn.Parameter(torch.tensor(100.0).log())

        def encode_image(self, pixels: Any) -> Any:
            return pixels.mean(dim=(2, 3))

        def encode_text(self, tokens: Any) -> Any:
            return tokens.float()

    def create(name: str, pretrained: str) -> Any:
        asked.update(name=name, pretrained=pretrained)
        return (
            Network(),
            lambda image: torch.tensor(np.array(image.resize((8, 8)))).permute(2, 0, 1).float(),
        )

    return SimpleNamespace(
        create_model_from_pretrained=create,
        get_tokenizer=lambda name: lambda texts: torch.tensor([[len(t), 1, 2] for t in texts]),
        list_models=lambda: ["ViT-B-16", "ViT-B-32"],
        list_pretrained_tags_by_model=lambda name: ["openai", "laion2b_s34b_b79k"],
    )
