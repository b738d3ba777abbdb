"""Every figure and table of the four papers: what they claim, and what comes out here."""

from modgap.reproduce.entry import Check, Entry, NotAtHand, Outcome, Paper, Setting
from modgap.reproduce.registry import entries, papers, select
from modgap.reproduce.report import Report
from modgap.reproduce.run import reproduce, run_entry

__all__ = [
    "Check",
    "Entry",
    "NotAtHand",
    "Outcome",
    "Paper",
    "Report",
    "Setting",
    "entries",
    "papers",
    "reproduce",
    "run_entry",
    "select",
]
