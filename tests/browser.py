"""A real browser for the tests of the page: found, installed where that is possible, opened.

``python tests/browser.py --install`` is what ``make test`` runs: as root on Debian it installs
Chromium if there is none, elsewhere it says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
MISSING = (
    "no Chromium was found, so the page is not tested in a browser. Install it (on Debian and "
    "Ubuntu: apt-get install chromium), or say where it is with MODGAP_CHROMIUM."
)


def chromium() -> str | None:
    """Where Chromium is, or None."""
    given = os.environ.get("MODGAP_CHROMIUM")
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def opened() -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def install() -> None:
    """Install Chromium where that takes no more than asking."""
    if chromium():
        return
    debian = Path("/etc/debian_version").exists() and shutil.which("apt-get")
    if debian and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "-qq", "update"],
            ["apt-get", "-qq", "-y", "install", "--no-install-recommends", "chromium"],
        ):
            subprocess.run(command, env=quiet, check=False, stdout=subprocess.DEVNULL)
    if not chromium():
        print(f"make test: {MISSING}", file=sys.stderr)


if __name__ == "__main__" and "--install" in sys.argv:
    install()
