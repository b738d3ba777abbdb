from .callables import CallableModel
from .model import Model, Role
from .opening import KINDS, open_model

__all__ = ["KINDS", "CallableModel", "Model", "Role", "open_model"]
