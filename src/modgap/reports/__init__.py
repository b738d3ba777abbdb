"""One self-contained page: see the gap, move it, and keep the proof."""

from modgap.reports.contents import contents
from modgap.reports.make import Report, report
from modgap.reports.thumbnails import Thumbnail, from_folder, from_pixels

__all__ = ["Report", "Thumbnail", "contents", "from_folder", "from_pixels", "report"]
