"""What tells corrections apart that map documents, or queries, differently."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence

import numpy as np

from modgap.corrections.correction import Correction, Role


def fingerprint(
    correction: Correction, role: Role = "document", names: Sequence[str] | None = None
) -> str:
    """Tells whether two corrections store documents alike: document maps, metric and hubs.

    That of a correction whose bank was removed is another: it stores no documents. With ``role``
    "query", whether they map queries alike; with ``names`` only maps of these modalities count.
    """
    digest = hashlib.sha256(correction.metric.encode())
    for name in correction.names if names is None else names:
        affine = correction.affine(name, role)
        for one in dataclasses.fields(affine):
            value = getattr(affine, one.name)
            is_array = isinstance(value, np.ndarray)
            digest.update(f"{name}.{one.name}={None if is_array else value!r};".encode())
            digest.update(np.ascontiguousarray(value, "<f8").tobytes() if is_array else b"")
    if correction.hubs is not None:
        digest.update(json.dumps(correction.hubs.header()).encode())
        for name, tensor in correction.hubs.tensors().items():
            kind = "<f2" if name == "hubs.bank" else "<i8"
            digest.update(np.ascontiguousarray(tensor, kind).tobytes())
    return digest.hexdigest()
