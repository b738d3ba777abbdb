"""The tables of Yaras et al. 2024 as printed, and what a model of theirs would take."""

from __future__ import annotations

from collections.abc import Mapping

from modgap.reproduce.entry import Number, Paper

PAPER = Paper(
    "yaras2024",
    "Yaras, Chen, Wang and Qu 2024: Explaining and mitigating the modality gap in contrastive "
    "multimodal learning",
)

GAP, UNIFORMITY = "modality gap", "uniformity"
ZERO_SHOT, PROBE = "zero-shot", "linear probe"
IMAGE, TEXT = "image retrieval", "text retrieval"
COLUMNS = (UNIFORMITY, GAP, ZERO_SHOT, PROBE, IMAGE, TEXT)
BASELINE = "baseline"

Row = tuple[float, ...]

# Table 1: gap, uniformity, MMVP-VLM accuracy.
TABLE1_COLUMNS = (GAP, UNIFORMITY, "MMVP-VLM")
TABLE1: dict[str, Row] = {
    BASELINE: (0.294, -1.165, 14.321),
    "FLT 0.04": (0.122, -1.183, 11.852),
    "FLT 0.07": (0.033, -1.246, 14.074),
    "FLT 0.1": (0.019, -1.251, 14.817),
    "TS S1": (0.198, -1.087, 14.074),
    "TS S2": (0.137, -1.092, 14.321),
    "TS S3": (0.088, -1.108, 13.087),
}
TABLE2: dict[str, Row] = {
    BASELINE: (-1.165, 0.294, 13.650, 65.550, 68.233, 78.367),
    "FLT": (-1.183, 0.122, 14.400, 61.980, 73.440, 82.660),
    "TS": (-1.108, 0.088, 17.167, 67.500, 75.723, 85.313),
    "TR": (-1.153, 0.284, 14.860, 66.460, 70.060, 80.100),
    "SLRT": (-1.152, 0.268, 15.130, 66.630, 70.320, 80.400),
    "HS": (-1.156, 0.225, 13.910, 65.950, 69.716, 79.740),
    "SS": (-1.152, 0.139, 14.330, 64.940, 68.912, 79.160),
}
_BASELINE: Row = (-1.165, 0.294, 13.65, 65.55, 68.23, 78.36)
TABLE3: dict[str, Row] = {
    BASELINE: _BASELINE,
    "0.01": (-1.214, 0.669, 18.48, 69.44, 69.89, 80.68),
    "0.02": (-1.138, 0.334, 18.83, 68.41, 70.54, 81.3),
    "0.04": (-1.183, 0.122, 14.4, 61.98, 73.44, 82.66),
    "0.07": (-1.246, 0.033, 11.76, 49.61, 75.53, 82.88),
    "0.1": (-1.251, 0.019, 10.42, 48.29, 66.55, 73.58),
    "0.2": (-1.255, 0.008, 10.55, 50.14, 23.97, 26.94),
    "0.3": (-1.282, 0.007, 10.69, 42.09, 10.4, 12.8),
    "0.4": (-1.296, 0.009, 13.83, 37.97, 6.9, 8.7),
}
TABLE4: dict[str, Row] = {
    BASELINE: _BASELINE,
    "S0": (-1.120, 0.384, 18.40, 69.40, 72.55, 82.89),
    "S1": (-1.087, 0.198, 18.55, 69.26, 72.69, 83.05),
    "S2": (-1.092, 0.137, 16.80, 68.25, 73.98, 84.25),
    "S3": (-1.108, 0.088, 17.17, 67.50, 75.72, 85.31),
    "A0": (-1.151, 0.541, 19.50, 69.47, 72.51, 81.97),
    "A1": (-1.120, 0.261, 16.85, 67.46, 73.90, 83.65),
}
TABLE5: dict[str, Row] = {
    BASELINE: _BASELINE,
    "softplus": (-1.153, 0.284, 14.86, 66.46, 70.06, 80.1),
    "scale 2": (-1.154, 0.287, 18.25, 66.3, 70.32, 80.6),
    "scale 10": (-1.153, 0.285, 14.36, 66.5, 70.15, 80.3),
    "HS 1": (-1.317, 0.028, 14.36, 39.72, 47.17, 53.22),
    "HS 0.1": (-1.127, 0.046, 17.39, 56.88, 67.1, 75.8),
    "HS 0.01": (-1.181, 0.095, 15.7, 64.29, 69.36, 79.4),
    "hard swap of rows": (-1.155, 0.289, 14.71, 65.91, 69.93, 80.6),
    "no normalisation": (-1.005, 0.468, 16.82, 65.4, 58.62, 74.16),
}


def named(rows: Mapping[str, Row], columns: tuple[str, ...] = COLUMNS) -> dict[str, Number]:
    """Each cell of a table under the name of its row and column."""
    return {
        f"{row}: {column}": value
        for row, values in rows.items()
        for column, value in zip(columns, values, strict=True)
    }


def column(rows: Mapping[str, Row], name: str, columns: tuple[str, ...] = COLUMNS) -> list[float]:
    """One column, from top to bottom."""
    place = columns.index(name)
    return [values[place] for values in rows.values()]
