"""What the gap is like: every quantity of definitions.md, on two matrices of embeddings."""

from modgap.measures.clustering import JointClustering, joint_clustering
from modgap.measures.concepts import ConceptConformity, concept_conformity, concept_frequency
from modgap.measures.cone import Cone, cone, log10_cap_fraction
from modgap.measures.conformity import (
    Blur,
    EstimatedConformity,
    blur,
    conformity,
    conformity_difference,
    conformity_divergence,
    estimated_conformity,
)
from modgap.measures.ellipsoid import (
    FeatureVariance,
    Shell,
    feature_divergence,
    feature_offset,
    feature_variance,
    off_diagonal_dominance,
    separability,
    shell,
    vslerp,
    vslerp_path,
)
from modgap.measures.gap import (
    GapCosines,
    GapOrthogonality,
    LinearSeparability,
    Norms,
    gap_distance,
    gap_matrix,
    gap_orthogonality,
    gap_vector,
    linear_separability,
    local_gaps,
    margin,
    norms,
)
from modgap.measures.landscape import (
    OriginLandscape,
    ShiftLandscape,
    origin_landscape,
    shift_landscape,
)
from modgap.measures.loss import (
    LossTerms,
    SoftAssignments,
    contrastive_loss,
    loss_terms,
    soft_assignments,
)
from modgap.measures.measurement import Between, Measurement, ModalitySummary, PairSummary
from modgap.measures.pair_gap import GapParts, gap_parts, pair_cosine, relative_gap
from modgap.measures.pairing import PairingSignal, check_pairing, pairing_signal
from modgap.measures.profile import Profile, profile
from modgap.measures.projection import Projection, projection
from modgap.measures.summary import measure
from modgap.measures.uniformity import alignment, uniformity, wasserstein_uniformity

__all__ = [
    "Between",
    "Blur",
    "ConceptConformity",
    "Cone",
    "EstimatedConformity",
    "FeatureVariance",
    "GapCosines",
    "GapOrthogonality",
    "GapParts",
    "JointClustering",
    "LinearSeparability",
    "LossTerms",
    "Measurement",
    "ModalitySummary",
    "Norms",
    "OriginLandscape",
    "PairSummary",
    "PairingSignal",
    "Profile",
    "Projection",
    "Shell",
    "ShiftLandscape",
    "SoftAssignments",
    "alignment",
    "blur",
    "check_pairing",
    "concept_conformity",
    "concept_frequency",
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
    "gap_matrix",
    "gap_orthogonality",
    "gap_parts",
    "gap_vector",
    "joint_clustering",
    "linear_separability",
    "local_gaps",
    "log10_cap_fraction",
    "loss_terms",
    "margin",
    "measure",
    "norms",
    "off_diagonal_dominance",
    "origin_landscape",
    "pair_cosine",
    "pairing_signal",
    "profile",
    "projection",
    "relative_gap",
    "separability",
    "shell",
    "shift_landscape",
    "soft_assignments",
    "uniformity",
    "vslerp",
    "vslerp_path",
    "wasserstein_uniformity",
]
