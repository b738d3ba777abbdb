"""Pages in a browser without a network."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def offline(browser) -> Any:
    """A browser without a network."""
    return browser.new_context(accept_downloads=True, offline=True)


@pytest.fixture(scope="session")
def tab(offline) -> Any:
    """One tab for all visits: it has compiled Plotly once, and every visit loads its page anew."""
    return offline.new_page()
