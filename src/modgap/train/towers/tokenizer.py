"""Captions as rows of token ids, by a vocabulary learned from captions or loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from modgap.core.checks import InputTypeError, InputValueError, check_choice, check_count, require
from modgap.core.files import write_text

TokenizerKind = Literal["bpe", "words"]

PADDING, UNKNOWN, BEGIN, END = "<pad>", "<unk>", "<start>", "<end>"
# In this order, so that their ids are 0, 1, 2 and 3.
SPECIAL = (PADDING, UNKNOWN, BEGIN, END)
# Their names in other vocabularies: CLIP's, BERT's, T5's and RoBERTa's.
_END_NAMES = (END, "<|endoftext|>", "[SEP]", "</s>")
_PADDING_NAMES = (PADDING, "[PAD]", "<|endoftext|>")
_EXTRA = "train"


class Tokenizer:
    """A vocabulary: call it with captions for their token ids, as a tensor.

    ``eos_token_id`` ends a caption and ``pad_token_id`` fills its row. ``eos_token_id`` is None
    where captions are bags of words.
    """

    def __init__(self, tokenizer: Any) -> None:
        # A loaded one may cut and pad by itself; here both happen in a call.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.eos_token_id: int | None = self._id(_END_NAMES)
        pad_token_id = self._id(_PADDING_NAMES)
        self.pad_token_id: int = 0 if pad_token_id is None else pad_token_id

    @property
    def vocab_size(self) -> int:
        """How many tokens there are; their ids are below it."""
        return int(self._tokenizer.get_vocab_size())

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab_size} tokens)"

    def __call__(self, captions: Sequence[str], context_length: int) -> torch.Tensor:
        """Token ids (n, context_length): begin, tokens, end, padding.

        A caption that is too long is cut, and still ends with the token that ends it.
        """
        least = 1 if self.eos_token_id is None else 3
        context_length = check_count(context_length, "context_length", at_least=least)
        found = self.ids(captions)
        rows = np.full((len(found), context_length), self.pad_token_id, dtype=np.int64)
        for row, whole in zip(rows, found, strict=True):
            ids = whole[:context_length]
            row[: len(ids)] = ids
            if self.eos_token_id is not None and len(whole) > context_length:
                row[-1] = self.eos_token_id
        return torch.from_numpy(rows)

    def ids(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, of any number."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(_texts(captions))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, which the tokenizers library reads as well."""
        write_text(path, self._tokenizer.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer of a JSON file, or of the tokenizer.json of a folder."""
        path = Path(path)
        if path.is_dir():
            path = path / "tokenizer.json"
        if not path.is_file():
            raise InputValueError(f"There is no tokenizer at {path}.")
        return cls.from_json(path.read_text(encoding="utf-8"), str(path))

    @classmethod
    def from_json(cls, text: str, where: str = "The text") -> Tokenizer:
        """The tokenizer that a JSON text describes; ``where`` is named if it cannot be read."""
        tokenizers = require("tokenizers", _EXTRA, "A tokenizer")
        try:
            return cls(tokenizers.Tokenizer.from_str(text))
        except Exception as error:  # the library raises bare Exceptions
            raise InputValueError(
                f"{where} cannot be read as the JSON of a tokenizer ({error})."
            ) from error

    def _id(self, names: Iterable[str]) -> int | None:
        ids = (self._tokenizer.token_to_id(name) for name in names)
        return next((int(found) for found in ids if found is not None), None)


def train_tokenizer(
    captions: Sequence[str], vocab_size: int = 8192, kind: TokenizerKind = "bpe"
) -> Tokenizer:
    """A tokenizer whose vocabulary is learned from captions in lower case.

    The same captions give the same tokens.

    Parameters
    ----------
    captions : list of str
        The captions to learn from.
    vocab_size : int, default 8192
        At most so many tokens, with "bpe".
    kind : {"bpe", "words"}
        "bpe" merges the most frequent neighbours among bytes, as CLIP and GPT-2 do, so that no
        text is unknown. "words" takes every word, in alphabetical order from token 1 on, without
        begin or end: for towers that take the mean of word vectors. Words it does not know are
        left out.
    """
    check_choice(kind, "kind", get_args(TokenizerKind))
    captions = _texts(captions)
    if not captions:
        raise InputValueError("A tokenizer needs at least one caption to learn from, got none.")
    vocab_size = check_count(vocab_size, "vocab_size")
    return Tokenizer(_words(captions) if kind == "words" else _bpe(captions, vocab_size))


def _bpe(captions: Sequence[str], vocab_size: int) -> Any:
    # WordPiece is not offered: the library numbers its pieces in an order that differs by run.
    t = require("tokenizers", _EXTRA, "A tokenizer")
    alphabet = sorted(t.pre_tokenizers.ByteLevel.alphabet())
    least = len(alphabet) + len(SPECIAL)
    if vocab_size < least:
        raise InputValueError(
            f"vocab_size must be at least {least}, for {len(alphabet)} bytes and {len(SPECIAL)} "
            f"special tokens, got {vocab_size}."
        )
    tokenizer = t.Tokenizer(t.models.BPE())
    tokenizer.normalizer = t.normalizers.Sequence(
        [t.normalizers.NFC(), t.normalizers.Lowercase(), t.normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = t.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = t.decoders.ByteLevel()
    trainer = t.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(captions, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in (BEGIN, END)]
    tokenizer.post_processor = t.processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}", special_tokens=ends
    )
    return tokenizer


def _words(captions: Sequence[str]) -> Any:
    t = require("tokenizers", _EXTRA, "A tokenizer")
    lower = t.normalizers.Lowercase()
    # Everything between words of letters and hyphens is dropped.
    cut = t.pre_tokenizers.Split(t.Regex("[a-z-]+"), behavior="removed", invert=True)
    found = {word for c in captions for word, _ in cut.pre_tokenize_str(lower.normalize_str(c))}
    ids = {PADDING: 0} | {word: place for place, word in enumerate(sorted(found), start=1)}
    tokenizer = t.Tokenizer(t.models.WordLevel(ids, unk_token=PADDING))
    tokenizer.normalizer = lower
    tokenizer.pre_tokenizer = cut
    return tokenizer


def _texts(captions: Sequence[str]) -> list[str]:
    if isinstance(captions, str):
        raise InputTypeError("captions must be a list of texts, got one text. Put it in a list.")
    texts = list(captions)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputTypeError(
                f"captions must be texts, got {type(text).__name__} at place {place}."
            )
    return texts
