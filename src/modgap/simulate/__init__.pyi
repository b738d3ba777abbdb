from .blur import blur_contrast, make_shifted_sphere, shell_conformity, thin_shell
from .cone import cone_by_depth
from .cone_initialisations import compare_cones, random_rows, trained_rows
from .cone_layer import layer_violations, relu_cosine
from .cone_networks import (
    digit_inputs,
    fit_classifier,
    make_network,
    network_rows,
    noise_inputs,
    without_normalisation,
)
from .cone_variance import initialisation_share
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
from .noise import pair_robustness
from .noise_candidates import expected_robustness
from .sphere import critical_temperature, make_sphere_pairs, sphere_landscape

__all__ = [
    "blur_contrast",
    "collapsed",
    "compare_cones",
    "cone_by_depth",
    "contrastive_gradient",
    "critical_temperature",
    "decay_rate",
    "descend",
    "digit_inputs",
    "expected_robustness",
    "first_step",
    "fit_classifier",
    "gap_flow",
    "initial_growth",
    "initial_growth_bound",
    "initialisation_share",
    "inverse_temperature_along",
    "layer_violations",
    "linear_schedule",
    "make_clusters",
    "make_network",
    "make_shifted_sphere",
    "make_sphere_pairs",
    "network_rows",
    "noise_inputs",
    "pair_robustness",
    "random_rows",
    "relu_cosine",
    "separation_bound",
    "shared_caption_loss",
    "shell_conformity",
    "simple_flow",
    "sphere_landscape",
    "thin_shell",
    "three_pairs",
    "trained_rows",
    "without_normalisation",
]
