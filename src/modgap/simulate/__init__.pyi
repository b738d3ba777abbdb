from .blur import blur_contrast, make_shifted_sphere, shell_conformity, thin_shell
from .cone_initialisations import compare_cones, random_rows, trained_rows
from .cone_theory import initialisation_share, layer_violations, relu_cosine
from .dynamics import descend
from .dynamics_loss import contrastive_gradient
from .dynamics_start import collapsed, make_clusters, three_pairs
from .dynamics_theory import first_step, shared_caption_loss
from .flow import gap_flow, linear_schedule, simple_flow
from .flow_theory import (
    decay_rate,
    initial_growth,
    initial_growth_bound,
    inverse_temperature_along,
    separation_bound,
)
from .noise import expected_robustness, pair_robustness
from .sphere import critical_temperature, make_sphere_pairs

__all__ = [
    "blur_contrast",
    "collapsed",
    "compare_cones",
    "contrastive_gradient",
    "critical_temperature",
    "decay_rate",
    "descend",
    "expected_robustness",
    "first_step",
    "gap_flow",
    "initial_growth",
    "initial_growth_bound",
    "initialisation_share",
    "inverse_temperature_along",
    "layer_violations",
    "linear_schedule",
    "make_clusters",
    "make_shifted_sphere",
    "make_sphere_pairs",
    "pair_robustness",
    "random_rows",
    "relu_cosine",
    "separation_bound",
    "shared_caption_loss",
    "shell_conformity",
    "simple_flow",
    "thin_shell",
    "three_pairs",
    "trained_rows",
]
