from .affine import Affine
from .background import Background, FewQueriesWarning, ForeignQueriesWarning
from .bank import ForeignBankWarning, OwnQueriesWarning, own_keys
from .base import Corrector, NotFitted, NothingMovesWarning
from .calibrate import Calibrate
from .check import check_corrector
from .correction import METRICS, Correction, Metric, Role
from .correctors import Center, OriginShift, OrthogonalShift, Procrustes, Shift, Whiten
from .expected_wrong import ExpectedWrong
from .extending import extend, refit_background
from .files import (
    correction_file_name,
    file_safe,
    load_corrections,
    save_corrections,
)
from .fitted_moments import RowLength, row_length
from .fitted_rows import FittedRows
from .hub import NoCardWarning
from .hubs import Hubs
from .next_steps import next_commands
from .presets import PRESETS, open_preset
from .query_names import one_query_modality, query_modalities
from .recognition import (
    Recognition,
    RecognitionWarning,
    check_recognised,
    recognise,
)
from .registry import CORRECTORS, METHODS, Method, make_corrector
from .row_map import RowMap, check_mapped
from .wording import METRIC_NAMES, demands, demands_by_topic, in_one_sentence, label

__all__ = [
    "CORRECTORS",
    "METHODS",
    "METRICS",
    "METRIC_NAMES",
    "PRESETS",
    "Affine",
    "Background",
    "Calibrate",
    "Center",
    "Correction",
    "Corrector",
    "ExpectedWrong",
    "FewQueriesWarning",
    "FittedRows",
    "ForeignBankWarning",
    "ForeignQueriesWarning",
    "Hubs",
    "Method",
    "Metric",
    "NoCardWarning",
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
    "check_corrector",
    "check_mapped",
    "check_recognised",
    "correction_file_name",
    "demands",
    "demands_by_topic",
    "extend",
    "file_safe",
    "in_one_sentence",
    "label",
    "load_corrections",
    "make_corrector",
    "next_commands",
    "one_query_modality",
    "open_preset",
    "own_keys",
    "query_modalities",
    "recognise",
    "refit_background",
    "row_length",
    "save_corrections",
]
