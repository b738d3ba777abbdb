from .callables import CallableModel
from .folder import Embedded, embed
from .in_memory import item_rows
from .model import Model, Role
from .opening import KINDS, open_model
from .tasks import LabelledRows, class_texts, zero_shot_rows
from .templates import TEMPLATES

__all__ = [
    "KINDS",
    "TEMPLATES",
    "CallableModel",
    "Embedded",
    "LabelledRows",
    "Model",
    "Role",
    "class_texts",
    "embed",
    "item_rows",
    "open_model",
    "zero_shot_rows",
]
