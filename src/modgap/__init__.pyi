from . import (
    corrections,
    datasets,
    diagnosis,
    drift,
    embed,
    engines,
    evaluation,
    index,
    io,
    measures,
    moments,
    plot,
    reports,
    reproduce,
    search,
    serve,
    simulate,
    train,
)
from ._version import __version__
from .corrections import Calibrate, Correction
from .datasets import load_digits
from .diagnosis import diagnose, fix
from .drift import GapMonitor, detect_drift
from .evaluation import evaluate_correction, mixed_retrieval, retrieval
from .io import (
    Embeddings,
    Modalities,
    fuse,
    open_embeddings,
    open_modalities,
    open_pair,
    write_embeddings,
)
from .measures import gap_distance, measure
from .reports import report
from .search import ScoreCalibrator

__all__ = [
    "Calibrate",
    "Correction",
    "Embeddings",
    "GapMonitor",
    "Modalities",
    "ScoreCalibrator",
    "__version__",
    "corrections",
    "datasets",
    "detect_drift",
    "diagnose",
    "diagnosis",
    "drift",
    "embed",
    "engines",
    "evaluate_correction",
    "evaluation",
    "fix",
    "fuse",
    "gap_distance",
    "index",
    "io",
    "load_digits",
    "measure",
    "measures",
    "mixed_retrieval",
    "moments",
    "open_embeddings",
    "open_modalities",
    "open_pair",
    "plot",
    "report",
    "reports",
    "reproduce",
    "retrieval",
    "search",
    "serve",
    "simulate",
    "train",
    "write_embeddings",
]
