from .folder import Embedded, embed
from .item_batches import item_rows
from .model import CallableModel, Model, Role
from .opening import KINDS, open_model
from .task_sets import ChoiceRows, FaceRows, MatchingRows, choice_rows, face_rows, matching_rows
from .tasks import LabelledRows, class_texts, zero_shot_rows
from .templates import TEMPLATES

__all__ = [
    "KINDS",
    "TEMPLATES",
    "CallableModel",
    "ChoiceRows",
    "Embedded",
    "FaceRows",
    "LabelledRows",
    "MatchingRows",
    "Model",
    "Role",
    "choice_rows",
    "class_texts",
    "embed",
    "face_rows",
    "item_rows",
    "matching_rows",
    "open_model",
    "zero_shot_rows",
]
