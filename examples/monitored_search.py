"""A search service that Prometheus watches: drift, queries that find nothing, modalities found.

    python examples/monitored_search.py
    prometheus --config.file=examples/monitoring/prometheus.yml

It searches one index of the digits that come with modgap (pip install 'modgap[faiss,monitor]') with
20 captions a second, and shows its metrics at http://localhost:9109/metrics. After five minutes the
queries are random vectors, as those of another model: most find nothing, and the monitor says why.
Import examples/monitoring/grafana.json into Grafana to look at it.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from pathlib import Path
from time import sleep

import numpy as np
from prometheus_client import REGISTRY, start_http_server

import modgap
from modgap.corrections import ExpectedWrong, RecognitionWarning
from modgap.index import open_index

PORT = 9109
PER_SECOND = 20


def main(seconds: float = float("inf"), change_after: float = 300) -> None:
    """Answer queries until the time is up; what they are changes on the way."""
    digits, rng = modgap.load_digits(), np.random.default_rng(0)
    first = digits.wording == 0
    captions = digits.Y[~first]  # other wordings than those of the index
    reference = {"image": digits.X, "text": digits.Y[first], "text queries": captions}
    correction = ExpectedWrong().fit(digits.X, digits.Y[first]).correction_
    monitor = modgap.GapMonitor(reference, correction, window=600)
    REGISTRY.register(monitor)
    start_http_server(PORT, addr="localhost")
    with (
        tempfile.TemporaryDirectory() as folder,
        open_index(Path(folder) / "both.faiss", correction, create=True) as index,
    ):
        index.write(digits.X, "image")
        index.write(digits.Y[first], "text")
        index.monitor = monitor
        warnings.simplefilter("ignore", RecognitionWarning)  # the monitor says it once
        for second in itertools.takewhile(lambda s: s < seconds, itertools.count()):
            queries = captions[rng.integers(len(captions), size=PER_SECOND)]
            if second >= change_after:
                queries = rng.normal(size=queries.shape)
            index.search(queries, "text", k=10, at_most=1.0)
            sleep(1)
    print(monitor.check())


if __name__ == "__main__":
    main()
