"""One self-contained page: see the gap, move it, and keep the proof.

``report`` makes the page, ``contents`` the document it is drawn from. ``write_diagnosis`` leaves a
folder with page, Markdown, JSON and correction. ``from_images`` and ``from_pixels`` give pictures
of rows.
"""

from modgap.reports.contents import contents
from modgap.reports.make import Report, report
from modgap.reports.markdown import diagnosis_markdown, write_diagnosis
from modgap.reports.rows import from_images, from_pixels

__all__ = [
    "Report",
    "contents",
    "diagnosis_markdown",
    "from_images",
    "from_pixels",
    "report",
    "write_diagnosis",
]
