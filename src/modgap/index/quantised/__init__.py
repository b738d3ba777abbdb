"""Documents in few bits, with the modality means taken out before anything is quantised."""

from modgap.index.quantised.index import QuantisedIndex

__all__ = ["QuantisedIndex"]
