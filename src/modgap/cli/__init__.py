"""The command line: one file per command; each parses, calls the library and prints."""

from modgap.cli.app import app, main

__all__ = ["app", "main"]
