"""Tiny random networks of the kinds that pretrained towers have, as folders made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CAPTIONS = [
    f"a {colour} bar on the {place}"
    for colour in ("red", "green", "blue", "grey")
    for place in ("left", "middle", "right")
]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789,:"
# Words of the captions, pieces of others, and words that no caption has.
PIECES = (
    *LETTERS, *(f"##{letter}" for letter in LETTERS), "##ing",
    *sorted({word for caption in CAPTIONS for word in caption.split()} - {"a"}),
    "bars", "no", "dog", "dogs", "run", "beach",
)  # fmt: skip
TINY_EFFICIENTNET = {
    "model_type": "efficientnet_lite",
    "name": "efficientnet-lite0",
    "settings": {"width_coefficient": 0.25, "depth_coefficient": 0.2},
}


def write_text_encoder(folder: Path, seed: int = 0) -> Path:
    """A BERT of two layers with a WordPiece vocabulary, as transformers saves it."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {token: place for place, token in enumerate((*SPECIAL, *PIECES))}
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=40, pad_token_id=0,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_image_encoder(folder: Path, seed: int = 0) -> Path:
    """A narrow EfficientNet-Lite; its batch norms remember something."""
    import torch
    from safetensors.torch import save_file

    network = tiny_efficientnet(32, seed).train()
    with torch.no_grad():
        network.extract_features(torch.randn(8, 3, 32, 32))
    weights = {
        f"network.{k}": v.contiguous()
        for k, v in network.state_dict().items()
        if not k.startswith("_fc.")
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(TINY_EFFICIENTNET))
    return folder


def write_vision_encoder(folder: Path, kind: str, seed: int = 0) -> Path:
    """A tiny image model of transformers, with its processor: "vit", "resnet" or all of "clip"."""
    import torch
    import transformers

    torch.manual_seed(seed)
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 32}  # fmt: skip
    patches = {"image_size": 32, "patch_size": 8}
    if kind == "clip":
        network: Any = transformers.CLIPModel(
            transformers.CLIPConfig(
                vision_config={**small, **patches}, text_config={**small, "vocab_size": 50}
            )
        )
    elif kind == "resnet":
        network = transformers.ResNetModel(
            transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1])
        ).train()
        network(torch.randn(8, 3, 32, 32))  # its batch norms remember something
    else:
        network = transformers.ViTModel(
            transformers.ViTConfig(**small, **patches), add_pooling_layer=kind == "vit"
        )
    network.save_pretrained(folder)
    processor = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.3]}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def tiny_efficientnet(size: int, seed: int = 0) -> Any:
    """The network itself, by the library that wrote its code."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    torch.manual_seed(seed)
    return EfficientNet.from_name(
        TINY_EFFICIENTNET["name"], image_size=size, **TINY_EFFICIENTNET["settings"]
    )
