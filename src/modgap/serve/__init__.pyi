from .app import make_app
from .explorer import Explorer
from .index import MixedIndex
from .jobs import Job, Jobs, QueueFull

__all__ = ["Explorer", "Job", "Jobs", "MixedIndex", "QueueFull", "make_app"]
