from .folder import EmbeddedFolder, embed
from .model import CallableModel, Model, Role
from .opening import KINDS, open_model

__all__ = [
    "KINDS",
    "CallableModel",
    "EmbeddedFolder",
    "Model",
    "Role",
    "embed",
    "open_model",
]
