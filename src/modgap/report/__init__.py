"""One self-contained page: see the gap, move it, and keep the proof."""

from modgap._callable import make_callable
from modgap.report.contents import contents
from modgap.report.make import Report, report
from modgap.report.thumbnails import Thumbnail, from_folder, from_pixels

__all__ = ["Report", "Thumbnail", "contents", "from_folder", "from_pixels", "report"]

make_callable(__name__)
