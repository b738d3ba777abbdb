"""Corrections with hubs, keyed in every way, and what their documents must be."""

from __future__ import annotations

import numpy as np

from index_services import rows
from modgap import Embeddings, Modalities, fuse
from modgap.corrections import Calibrate
from modgap.search import search

X, Y = rows()
N = len(X)
HUBS = Calibrate(hubs=0.5, neighbours=5)
GROUPS = np.arange(N) // 2
IDS = [f"no {i}" for i in range(N)]
DATA = {
    "row": Modalities.of(X, Y),
    "own row": Modalities.of(X, Y, paired=False),
    "id": Modalities.of(*(Embeddings.from_array(one, ids=IDS) for one in (X, Y))),
    "group": Modalities.of(
        *(Embeddings.from_array(one, groups=GROUPS) for one in (X, Y)), groups=(GROUPS, GROUPS)
    ),
}
KEYED = {name: HUBS.fit(data).correction_ for name, data in DATA.items()}
FOREIGN = HUBS.fit(X, Y, bank=Y[::-1] * 1.01).correction_  # unlabelled: no keys


def stored(correction, data, name):
    """Every document as it must be stored."""
    side = data.sides[name]
    keys = None if correction.hubs.keys is None else data.keys_of(name)
    return correction.apply(side.rows(), name, keys=keys)


def ranked(hits, correction, data, queries, k):
    """The hits are those of an exact search over the stored vectors."""
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    asked = correction.apply(queries, "text", "query")
    _, scores = search(asked, whole, k, "inner_product")
    np.testing.assert_allclose(hits.scores, scores, atol=1e-5 * np.abs(scores).max())


def three():
    return {"image": X, "text": Y, "fused": fuse(X[:40], Y[:40])}
