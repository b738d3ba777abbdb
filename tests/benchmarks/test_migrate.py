"""The benchmark of a new model: its page says what was measured, and its ways are what they say."""

from __future__ import annotations

import numpy as np

import migrate
from results import load


def test_the_page_has_the_tables_of_the_results(tmp_path, monkeypatch):
    copy = tmp_path / "migrate.md"
    copy.write_text(migrate.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    page, here = copy.read_text(encoding="utf-8"), migrate.PAGE
    monkeypatch.setattr(migrate, "PAGE", copy)
    migrate.make_page(load("migrate")["rows"])
    assert copy.read_text(encoding="utf-8") == page
    assert here.read_text(encoding="utf-8") == page


def test_a_model_that_is_only_turned_keeps_all_and_columns_alone_keep_nothing():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(400, 12))
    old = {
        name: latent + 0.3 * rng.normal(size=latent.shape) + shift
        for name, shift in (("image", 2), ("text", -2))
    }
    found = migrate.kept(migrate.Both(old, migrate.turned(old, 12), 200), 200, seed=0)
    for way in ("orthogonal", "ridge", "orthogonal of all", "ridge of all", "chosen"):
        assert found[way][1] > 0.97 * found["old"][1]
    assert found["none"][1] < 0.3 * found["old"][1]
