"""What the tests of indexes share: a store of every kind."""

from __future__ import annotations

import pytest

from index_services import LIBRARIES, make_store


@pytest.fixture(params=sorted(LIBRARIES))
def store(request, tmp_path):
    """Where an index is kept: each database, or those that a test names."""
    return make_store(request.param, tmp_path)
