"""Fix the gap: every method fits a ``Correction``, a small file of affine maps."""

from modgap.corrections.affine import Affine
from modgap.corrections.asking import asking_modalities, asking_modality, asking_or_text
from modgap.corrections.bank import ForeignBankWarning
from modgap.corrections.base import (
    Corrector,
    NotFitted,
    NothingMovesWarning,
    RowLength,
    row_length,
)
from modgap.corrections.calibrate import Calibrate
from modgap.corrections.check import check_corrector
from modgap.corrections.correction import METRICS, Correction, Metric, Role
from modgap.corrections.demands import (
    METRIC_NAMES,
    demands,
    demands_by_topic,
    in_one_sentence,
    label,
    next_commands,
)
from modgap.corrections.files import (
    correction_file,
    file_safe,
    load_corrections,
    save_corrections,
)
from modgap.corrections.fitted import FittedRows
from modgap.corrections.hubs import Hubs
from modgap.corrections.orthogonal import OrthogonalShift
from modgap.corrections.own_queries import OwnQueriesWarning, own_keys
from modgap.corrections.procrustes import Procrustes
from modgap.corrections.recognise import (
    Recognition,
    RecognitionWarning,
    check_recognised,
    recognise,
)
from modgap.corrections.registry import CORRECTORS, METHODS, Method, make_corrector
from modgap.corrections.row_map import RowMap, check_mapped
from modgap.corrections.shift import Center, OriginShift, Shift
from modgap.corrections.whiten import Whiten

__all__ = [
    "CORRECTORS",
    "METHODS",
    "METRICS",
    "METRIC_NAMES",
    "Affine",
    "Calibrate",
    "Center",
    "Correction",
    "Corrector",
    "FittedRows",
    "ForeignBankWarning",
    "Hubs",
    "Method",
    "Metric",
    "NotFitted",
    "NothingMovesWarning",
    "OriginShift",
    "OrthogonalShift",
    "OwnQueriesWarning",
    "Procrustes",
    "Recognition",
    "RecognitionWarning",
    "Role",
    "RowLength",
    "RowMap",
    "Shift",
    "Whiten",
    "asking_modalities",
    "asking_modality",
    "asking_or_text",
    "check_corrector",
    "check_mapped",
    "check_recognised",
    "correction_file",
    "demands",
    "demands_by_topic",
    "file_safe",
    "in_one_sentence",
    "label",
    "load_corrections",
    "make_corrector",
    "next_commands",
    "own_keys",
    "recognise",
    "row_length",
    "save_corrections",
]
