"""What the gap is like: every quantity of docs/definitions.md, on two matrices of embeddings."""

from modgap._callable import make_callable
from modgap.measure.cone import Cone, cap_fraction, cone
from modgap.measure.conformity import (
    Blur,
    EstimatedConformity,
    blur,
    conformity,
    conformity_difference,
    conformity_divergence,
    estimated_conformity,
)
from modgap.measure.ellipsoid import (
    FeatureVariance,
    Shell,
    feature_divergence,
    feature_offset,
    feature_variance,
    off_diagonal_dominance,
    separability,
    shell,
    vslerp,
)
from modgap.measure.gap import (
    GapCosines,
    GapOrthogonality,
    LinearSeparability,
    Norms,
    gap_distance,
    gap_orthogonality,
    gap_vector,
    linear_separability,
    local_gaps,
    margin,
    norms,
)
from modgap.measure.landscape import (
    OriginLandscape,
    ShiftLandscape,
    origin_landscape,
    shift_landscape,
)
from modgap.measure.loss import (
    LossTerms,
    SoftAssignments,
    contrastive_loss,
    loss_terms,
    soft_assignments,
)
from modgap.measure.profile import Profile, profile
from modgap.measure.projection import Projection, projection
from modgap.measure.summary import Measurement, ModalitySummary, PairSummary, measure
from modgap.measure.uniformity import alignment, uniformity, wasserstein_uniformity

__all__ = [
    "Blur",
    "Cone",
    "EstimatedConformity",
    "FeatureVariance",
    "GapCosines",
    "GapOrthogonality",
    "LinearSeparability",
    "LossTerms",
    "Measurement",
    "ModalitySummary",
    "Norms",
    "OriginLandscape",
    "PairSummary",
    "Profile",
    "Projection",
    "Shell",
    "ShiftLandscape",
    "SoftAssignments",
    "alignment",
    "blur",
    "cap_fraction",
    "cone",
    "conformity",
    "conformity_difference",
    "conformity_divergence",
    "contrastive_loss",
    "estimated_conformity",
    "feature_divergence",
    "feature_offset",
    "feature_variance",
    "gap_distance",
    "gap_orthogonality",
    "gap_vector",
    "linear_separability",
    "local_gaps",
    "loss_terms",
    "margin",
    "measure",
    "norms",
    "off_diagonal_dominance",
    "origin_landscape",
    "profile",
    "projection",
    "separability",
    "shell",
    "shift_landscape",
    "soft_assignments",
    "uniformity",
    "vslerp",
    "wasserstein_uniformity",
]

make_callable(__name__)
