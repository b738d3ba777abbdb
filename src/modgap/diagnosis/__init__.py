"""Try every correction on held-out rows, and say what to do."""

from modgap.diagnosis.candidates import DEFAULT_CORRECTORS
from modgap.diagnosis.diagnosis import Diagnosis
from modgap.diagnosis.fixing import Fix, fix
from modgap.diagnosis.migration import migrate
from modgap.diagnosis.migration_verdict import Migration
from modgap.diagnosis.path import GapPath, gap_paths
from modgap.diagnosis.run import diagnose
from modgap.diagnosis.verdict import Trial

__all__ = [
    "DEFAULT_CORRECTORS",
    "Diagnosis",
    "Fix",
    "GapPath",
    "Migration",
    "Trial",
    "diagnose",
    "fix",
    "gap_paths",
    "migrate",
]
