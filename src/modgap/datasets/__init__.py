"""Data sets that ship with modgap."""

from .digits import DigitPairs, load_digits

__all__ = ["DigitPairs", "load_digits"]
