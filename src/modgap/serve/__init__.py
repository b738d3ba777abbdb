"""The live explorer: the report's page fed by a server, with search and a workbench."""

from modgap.serve.explorer import Explorer
from modgap.serve.jobs import Job, Jobs, QueueFull

__all__ = ["Explorer", "Job", "Jobs", "QueueFull"]
