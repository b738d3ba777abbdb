"""Pages in a browser without a network."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def offline(browser):
    """A browser without a network."""
    return browser.new_context(accept_downloads=True, offline=True)


@pytest.fixture(scope="session")
def tab(offline):
    """One tab for all visits: it has compiled Plotly once, and every visit loads its page anew."""
    return offline.new_page()
