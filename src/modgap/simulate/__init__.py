"""What the papers say happens, made to happen on made-up data.

Names are resolved when first used: importing this loads neither torch nor numba nor anything that
draws.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modgap.simulate.blur import (
        blur_contrast,
        make_shifted_sphere,
        shell_conformity,
        thin_shell,
    )
    from modgap.simulate.cone import cone_by_depth
    from modgap.simulate.cone_initialisations import compare_cones, random_cones, trained_cones
    from modgap.simulate.cone_layer import layer_violations, relu_cosine
    from modgap.simulate.cone_variance import initialisation_share
    from modgap.simulate.dynamics import descend
    from modgap.simulate.dynamics_loss import contrastive_gradient
    from modgap.simulate.dynamics_start import (
        collapsed,
        make_clusters,
        parallel_rings,
        three_pairs,
    )
    from modgap.simulate.dynamics_theory import first_step, shared_caption_loss
    from modgap.simulate.flow import gap_flow, linear_schedule, simple_flow
    from modgap.simulate.flow_theory import (
        decay_rate,
        initial_growth,
        initial_growth_bound,
        inverse_temperature_along,
        separation_bound,
    )
    from modgap.simulate.noise import pair_robustness
    from modgap.simulate.noise_candidates import expected_robustness
    from modgap.simulate.sphere import critical_temperature, make_sphere_pairs, sphere_landscape

# Module of each name; the imports above tell type checkers the same.
_HOMES = {
    "blur": "blur_contrast make_shifted_sphere shell_conformity thin_shell",
    "cone": "cone_by_depth",
    "cone_initialisations": "compare_cones random_cones trained_cones",
    "cone_layer": "layer_violations relu_cosine",
    "cone_variance": "initialisation_share",
    "dynamics": "descend",
    "dynamics_loss": "contrastive_gradient",
    "dynamics_start": "collapsed make_clusters parallel_rings three_pairs",
    "dynamics_theory": "first_step shared_caption_loss",
    "flow": "gap_flow linear_schedule simple_flow",
    "flow_theory": (
        "decay_rate initial_growth initial_growth_bound inverse_temperature_along separation_bound"
    ),
    "noise": "pair_robustness",
    "noise_candidates": "expected_robustness",
    "sphere": "critical_temperature make_sphere_pairs sphere_landscape",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "blur_contrast",
    "collapsed",
    "compare_cones",
    "cone_by_depth",
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
    "parallel_rings",
    "random_cones",
    "relu_cosine",
    "separation_bound",
    "shared_caption_loss",
    "shell_conformity",
    "simple_flow",
    "sphere_landscape",
    "thin_shell",
    "three_pairs",
    "trained_cones",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
