"""The live explorer: the report's page fed by a server, with search and a workbench.

``Explorer`` holds the data, ``make_app`` serves it; ``MixedIndex`` is its index, which can be
searched on its own. ``Jobs`` runs work in the background. Needs ``modgap[serve]``.
"""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, __file__, needs={"fastapi": ("serve", "modgap.serve")}
)
