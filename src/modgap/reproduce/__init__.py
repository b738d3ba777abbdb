"""Every figure and table of the four papers: what they claim, and what comes out here."""

from modgap.reproduce.entry import Check, Entry, Outcome, check
from modgap.reproduce.paper import Paper
from modgap.reproduce.registry import entries, papers, select
from modgap.reproduce.report import EntryReport
from modgap.reproduce.run import reproduce, run_entry
from modgap.reproduce.setting import NotAtHand, Setting

__all__ = [
    "Check",
    "Entry",
    "EntryReport",
    "NotAtHand",
    "Outcome",
    "Paper",
    "Setting",
    "check",
    "entries",
    "papers",
    "reproduce",
    "run_entry",
    "select",
]
