"""Modules whose repr has their settings, as torch's own layers have."""

from __future__ import annotations

import inspect

from torch import nn


class Described(nn.Module):
    """A module that keeps the arguments of its constructor under their names."""

    def extra_repr(self) -> str:
        """The settings that are plain values; torch shows modules among them itself."""
        mro = type(self).__mro__
        names = [
            n for cls in mro[: mro.index(Described)] for n in inspect.signature(cls).parameters
        ]
        held = {name: getattr(self, name, ...) for name in names}
        return ", ".join(
            f"{name}={value!r}"
            for name, value in held.items()
            if value is None or isinstance(value, bool | int | float | str)
        )
