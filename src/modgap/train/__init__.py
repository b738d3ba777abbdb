"""Training with gap control: temperatures, swaps, losses, a loop with hooks, callbacks.

Names are resolved when first used: a config can be read without torch.
"""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, needs={"torch": ("train", "Training")})
