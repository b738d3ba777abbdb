"""What every number on the page means, and which paper it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LIANG = "Liang et al. 2022"
YARAS = "Yaras et al. 2024"
LEVI = "Levi and Gilboa 2025"
CHOWERS = "Chowers et al. 2026"

# Key: label, definition, where it is defined.
_TERMS: dict[str, tuple[str, str, str]] = {
    "rows": ("Rows", "How many vectors there are of each modality.", ""),
    "row": ("Row", "The number of a vector in its file, counted from 0.", ""),
    "seed": ("Seed", "What samples, splits and noise were drawn with; it gives them again.", ""),
    "dim": ("Dimensions", "How many numbers a vector has.", ""),
    "pairs": ("Pairs", "Groups with rows of both modalities, one pair counted for each.", ""),
    "groups": (
        "Groups",
        "Rows that belong together, one group for each pair or set of matches. Data are split by "
        "group: to fit on, to choose on, to confirm on.",
        "",
    ),
    "gap": (
        "Gap",
        "Euclidean distance between the means of the two modalities. 0 when they coincide, "
        "at most 2 on unit rows.",
        f"{LIANG}, sec. 4.2",
    ),
    "gap_orthogonality": (
        "Cosine to the gap",
        "Mean absolute cosine between the centred rows of a modality and the gap vector. Near 0 "
        "the gap is orthogonal to how the rows vary, so it can be closed without changing "
        "neighbours.",
        f"{CHOWERS}, sec. 3.3",
    ),
    "tags": (
        "Tag features",
        "Features whose separability is above 1: one number of the vector tells the modality.",
        f"{LEVI}, eq. 5",
    ),
    "separability": (
        "Separability",
        "Per feature, the distance between the two means over the root of the summed variances. "
        "Above 1 the feature tags the modality.",
        f"{LEVI}, eq. 5",
    ),
    "linear_separability": (
        "Linear separability",
        "Held-out accuracy of a linear classifier that tells the modalities apart, on all features "
        "or on the two of largest separability. 0.5 is chance.",
        f"{LEVI}, sec. 4",
    ),
    "norm": ("Row norm", "Mean Euclidean length of the rows as given.", f"{LEVI}, fig. 14"),
    "cone": (
        "Cone",
        "Cosine between two different rows of one modality, over all pairs. A mean near 1 is a "
        "narrow cone, near 0 rows all over the sphere.",
        f"{LIANG}, sec. 2",
    ),
    "cosines": (
        "Cosines",
        "Cosine of the angle between two vectors: within one modality, between matches of the two, "
        "and between non-matches.",
        f"{LIANG}, fig. 2a",
    ),
    "uniformity": (
        "Uniformity",
        "Log of the mean of exp(−2 · squared distance) over pairs of rows. Lower is more evenly "
        "spread over the sphere.",
        "Wang and Isola 2020",
    ),
    "wasserstein_uniformity": (
        "Wasserstein uniformity",
        "Minus the Wasserstein distance between a Gaussian fitted to all rows and the uniform one. "
        "0 is uniform. It depends on the number of rows.",
        f"{YARAS}, app. E.2",
    ),
    "shell": (
        "Thin shell",
        "Distance of the rows from their modality's mean. On a thin shell all are close to the "
        "root of the trace of the covariance.",
        f"{LEVI}, th. 3.1",
    ),
    "shell_offset": (
        "Shell offset",
        "Length of the mean over the root of the trace of the covariance: how far off the origin "
        "the ellipsoid sits.",
        f"{LEVI}, sec. 4",
    ),
    "dominance": (
        "Off-diagonal dominance",
        "Per feature, the sum of its absolute covariances with all others over its own variance. "
        "Far above 1 the ellipsoid is tilted against the axes. The table has the median.",
        f"{LEVI}, eq. 6",
    ),
    "variance": (
        "Variance",
        "Population variance of a feature within one modality.",
        f"{LEVI}, fig. 5",
    ),
    "conformity": (
        "Conformity",
        "Mean cosine of a row to every other row of its modality. High for common things, low for "
        "unusual ones.",
        f"{LEVI}, def. 1",
    ),
    "estimated_conformity": (
        "Estimated conformity",
        "Pearson correlation of conformity with the cosine to the mean, its cheap estimate. "
        "1 on unit rows.",
        f"{LEVI}, def. 2",
    ),
    "conformity_divergence": (
        "Conformity divergence",
        "Kullback–Leibler divergence between the conformity distributions of the modalities, over "
        "50 shared bins.",
        f"{LEVI}, fig. 11",
    ),
    "alignment": (
        "Alignment",
        "Mean squared distance between the unit rows of a pair.",
        "Wang and Isola 2020",
    ),
    "margin": (
        "Margin",
        "Least difference between the cosine of a pair and that of a wrong partner. Positive when "
        "every row's best partner is its own.",
        f"{YARAS}, sec. 2",
    ),
    "loss": (
        "Contrastive loss",
        "Half the row and column cross-entropy of the cosines over the temperature: what CLIP-like "
        "models are trained to make small.",
        f"{LIANG}, sec. 4.1",
    ),
    "shift_landscape": (
        "Loss along the gap",
        "The contrastive loss as both modalities are moved along the gap and brought back to unit "
        "length. The gap of least loss says where training at that temperature would leave them.",
        f"{LIANG}, fig. 3",
    ),
    "origin_landscape": (
        "Loss toward the origin",
        "The contrastive loss, its two terms and the conformity divergence as a share of each "
        "modality's mean is subtracted. 0 is where training left the rows, 1 the origin.",
        f"{LEVI}, sec. 5",
    ),
    "step": (
        "Step",
        "How much of the move is made: 0 is the rows as they are, 1 all of it.",
        f"{LIANG}, sec. 4.2",
    ),
    "interval": (
        "Interval",
        "95 % interval from 1,000 resamples of the held-out groups, the same for every correction.",
        "",
    ),
    "kept_fitted": (
        "Kept, fitted rows",
        "Share of nearest neighbours left unchanged on the rows the correction was fitted on.",
        f"{CHOWERS}, th. 3.5",
    ),
    "mixed_ndcg@10": (
        "Mixed NDCG@10",
        "One index holds each item as either modality; the query is the other one. 1 when its "
        "match comes first, falling with the logarithm of its place, 0 beyond the tenth.",
        "Järvelin and Kekäläinen 2002",
    ),
    "own_modality_excess@10": (
        "Own-modality excess",
        "In one index for both: the share of the query's own modality among the wrong results of "
        "the ten best, beyond its share of the index. 0 is fair, 0.5 means only its own.",
        "",
    ),
    "robust_to_noise": (
        "Robust to noise",
        "Share of queries whose nearest candidate stays the same when Gaussian noise, half as long "
        "as an average row, is added to the candidates.",
        f"{CHOWERS}, eq. 12",
    ),
    "robust_to_int8": (
        "Robust to int8",
        "Share of queries whose nearest candidate stays when documents are stored in 8 bits a "
        "number.",
        f"{CHOWERS}, sec. 5.2",
    ),
    "robust_to_1bit": (
        "Robust to 1 bit",
        "Share of queries whose nearest candidate stays when only the sign of each number is "
        "stored.",
        f"{CHOWERS}, sec. 5.2",
    ),
    "neighbours_kept": (
        "Neighbours kept",
        "Share of queries, on held-out rows, whose nearest row of the other modality is the one "
        "they had before.",
        f"{CHOWERS}, th. 3.5",
    ),
    "pca": (
        "PCA",
        "Principal directions of both modalities together, each counting one half.",
        f"{LIANG}, fig. 1",
    ),
    "svd": (
        "SVD",
        "Directions of largest size without centring: the origin of the space stays in the "
        "picture.",
        f"{LIANG}, fig. 1",
    ),
    "umap": (
        "UMAP",
        "A picture that keeps neighbourhoods, not distances.",
        f"{LIANG}, fig. 1",
    ),
}


def terms(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Label, definition and source of every term, for modalities of these names."""
    return {
        key: {"label": label, "definition": definition, "source": source}
        for key, (label, definition, source) in (*_TERMS.items(), *_recalls(names))
    }


def _recalls(names: Sequence[str]) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for found, asking in (names, names[::-1]):
        yield (
            f"{found}_retrieval_recall@1",
            (
                f"{found.capitalize()} recall@1",
                f"Share of {asking} queries whose best {found}, among all {found} rows, is their "
                "own.",
                "Radford et al. 2021",
            ),
        )
