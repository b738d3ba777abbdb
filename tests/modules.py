"""The modules of the package, for tests that import every one."""

from __future__ import annotations

import pkgutil

import modgap

# They run when imported, or need Triton, which comes with a GPU.
NOT_IMPORTED = {
    "modgap.__main__",
    "modgap.reproduce.flickr8k.__main__",
    "modgap.arrays.cuda.kernels",
}
# Their libraries have an environment of their own: make test-integrations.
LIBRARIES = ("chroma", "langchain", "llama_index", "mteb")
INTEGRATIONS = {f"modgap.adapters.{name}" for name in LIBRARIES}
MODULES = sorted(
    {found.name for found in pkgutil.walk_packages(modgap.__path__, "modgap.")}
    - NOT_IMPORTED
    - INTEGRATIONS
)
