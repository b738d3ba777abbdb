from .folder import Embedded, embed
from .model import CallableModel, Model, Role
from .opening import KINDS, open_model

__all__ = [
    "KINDS",
    "CallableModel",
    "Embedded",
    "Model",
    "Role",
    "embed",
    "open_model",
]
