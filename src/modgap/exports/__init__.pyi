from .export import TARGETS, Target, export_correction, merge_numbers

__all__ = ["TARGETS", "Target", "export_correction", "merge_numbers"]
