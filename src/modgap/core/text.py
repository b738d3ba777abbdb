"""Labels, ids and names as they are compared: the same characters however they are encoded.

An é may be one character or an e and an accent; both are the same text. NFC makes them one. NFKC
would also take ² for 2 and ﬁ for fi, which are different labels.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np

# No character below this one is changed by NFC.
_FIRST_MARK = 0x300


def same_text(text: str) -> str:
    """A text in NFC.

    >>> same_text("e\\u0301") == "\\u00e9", same_text("x\\u00b2") == "x2"
    (True, False)
    """
    return unicodedata.normalize("NFC", text)


def same_texts(labels: Any) -> np.ndarray:
    """Labels with the texts among them in NFC; numbers and what is missing stay as they are.

    >>> same_texts(["e\\u0301", "\\u00e9"]).tolist() == ["\\u00e9"] * 2
    True
    """
    found = np.asarray(labels)
    if found.dtype.kind == "O":
        texts = np.empty(found.size, dtype=object)
        texts[:] = [same_text(one) if isinstance(one, str) else one for one in found.ravel()]
        return texts.reshape(found.shape)
    if found.dtype.kind != "U" or found.size == 0:
        return found
    codes = np.ascontiguousarray(found).reshape(-1).view(np.uint32)
    if found.dtype.byteorder not in "=|" or int(codes.max(initial=0)) >= _FIRST_MARK:
        return np.array([same_text(one) for one in found.ravel().tolist()]).reshape(found.shape)
    return found
