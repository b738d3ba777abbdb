"""A correction with hubs as a value: its column, its file, torch, its inverse, bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from conftest import make_pairs
from modgap import Modalities
from modgap.core.checks import InputError
from modgap.corrections import Calibrate, Center, Correction, Hubs, OwnQueriesWarning
from modgap.moments import PairMoments

X, Y = make_pairs(70)
MODES = ("keep", "mixed")


def fitted(mode="keep", **more):
    return Calibrate(mode, hubs=0.5, neighbours=6).fit(X, Y, **more).correction_


def slow_column(correction, rows, name, keys):
    """−α times the mean of the k largest scores on bank rows of other groups, row by row."""
    hubs = correction.hubs
    mapped = correction.affine(name)(rows)
    column = []
    for row, key in zip(mapped, keys, strict=True):
        scores = [float(b.astype(float) @ row) for b in hubs.bank[hubs.keys != key]]
        column.append(-hubs.weight * np.mean(sorted(scores)[-hubs.neighbours :]))
    return np.array(column)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["image", "text"])
def test_documents_get_their_hubness_and_queries_a_one(mode, name):
    data = Modalities.of(X, Y)
    correction = Calibrate(mode, hubs=0.5, neighbours=6).fit(data).correction_
    rows, keys = data.sides[name].rows(), data.keys_of(name)
    documents = correction.apply(rows, name, keys=keys)
    np.testing.assert_array_equal(documents[:, :-1], correction.affine(name)(rows))
    np.testing.assert_allclose(
        documents[:, -1], slow_column(correction, rows, name, keys), rtol=1e-6
    )
    np.testing.assert_array_equal(correction.apply(Y, "text", "query")[:, -1], np.ones(70))
    others = correction.apply(rows, name, keys=keys + 1000)  # of no group of the bank
    np.testing.assert_allclose(
        others[:, -1], slow_column(correction, rows, name, keys + 1000), rtol=1e-6
    )
    np.testing.assert_array_equal(correction.apply(rows[:50], name), others[:50])


@pytest.mark.parametrize("mode", MODES)
def test_torch_gives_what_numpy_gives(mode):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    correction = fitted(mode)
    module = correction.to_torch()
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        for name, rows, role in (
            ("image", X, "document"),
            ("text", Y, "document"),
            ("text", Y, "query"),
        ):
            given, keys = torch.tensor(rows, dtype=dtype), np.arange(70)
            np.testing.assert_allclose(
                module(given, name, role, torch.tensor(keys)).numpy(),
                correction.apply(rows, name, role, keys),
                atol=tolerance,
            )
            np.testing.assert_allclose(
                module(given[:50], name, role).numpy(),
                correction.apply(rows[:50], name, role),
                atol=tolerance,
            )
            ours = correction.apply(given, name, role)
            assert ours.dtype == dtype
            np.testing.assert_allclose(
                ours.numpy(), correction.apply(rows, name, role), atol=tolerance
            )
    assert [*module.state_dict()][-2:] == ["bank", "bank_keys"]
    bare = correction.without_bank().to_torch()
    assert bare(torch.tensor(Y), "text", "query").shape == (70, 13)
    with pytest.raises(InputError, match="bank of queries was removed"):
        bare(torch.tensor(X), "image")


def test_the_inverse_drops_the_column():
    correction = fitted()
    back = correction.inverse()
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Y)]
    for name, rows, once in (("image", X, unit[0]), ("text", Y, unit[1])):
        np.testing.assert_allclose(back.apply(correction.apply(rows, name), name), once, atol=1e-9)
    asked = correction.apply(Y, "text", "query")
    np.testing.assert_allclose(back.apply(asked, "text", "query"), unit[1], atol=1e-9)
    assert back.hubs is None


@pytest.mark.parametrize("bank", [True, False])
def test_a_file_comes_back_as_it_was(tmp_path, bank):
    correction = fitted()
    correction.save(tmp_path / "c.safetensors", bank=bank)
    again = Correction.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(
        again.apply(Y, "text", "query"), correction.apply(Y, "text", "query")
    )
    assert (again.dim_out, again.hubs.weight, again.hubs.neighbours) == (13, 0.5, 6)
    assert again.hubs.n_bank == 70
    assert str(again) == str(correction if bank else correction.without_bank())
    if bank:
        keys = np.arange(70)
        np.testing.assert_array_equal(
            again.apply(X, "image", keys=keys), correction.apply(X, "image", keys=keys)
        )
        assert again.hubs.bank.dtype == np.float16
    else:
        held = {name for name in read(tmp_path / "c.safetensors")[0] if name.startswith("hubs")}
        assert held == set()
        with pytest.raises(InputError, match="bank of queries was removed") as said:
            again.apply(X, "image")
        assert "\n" not in str(said.value)


# --- Bad input ------------------------------------------------------------------------------------


def read(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["modgap"])


def other_bank(tensors, header):
    tensors["hubs.bank"] = tensors["hubs.bank"][:, :5].copy()


def fewer_keys(tensors, header):
    tensors["hubs.keys"] = tensors["hubs.keys"][:-1].copy()


def keys_of_floats(tensors, header):
    tensors["hubs.keys"] = tensors["hubs.keys"] + 0.5


def no_bank_tensor(tensors, header):
    del tensors["hubs.bank"]


def infinite(tensors, header):
    tensors["hubs.bank"][3, 2] = np.inf


def said(**changed):
    def change(tensors, header):
        header["hubs"] |= changed

    change.__name__ = str(changed)
    return change


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (other_bank, "must have the 12 columns of the mapped queries, got 5"),
        (fewer_keys, "one key per query: 70 queries, got shape"),
        (keys_of_floats, "keys of a bank must be whole numbers"),
        (no_bank_tensor, "not a whole correction: KeyError"),
        (infinite, "must be a matrix of finite numbers"),
        (said(weight="much"), "not a whole correction"),
        (said(weight=7.0), "hubs must be between 0 and 1"),
        (said(neighbours=None), "not a whole correction"),
        (said(neighbours=0), "neighbours must be at least 1"),
        (said(neighbours=60), "at most half of the bank"),
        (said(keyed_by="sha"), "keyed_by must be one of"),
        (said(keyed_by=["row"]), "keyed_by must be one of"),
        (said(tensors=7), "not a whole correction"),
        (said(n_bank="x"), "not a whole correction"),
    ],
)
def test_a_file_that_was_tampered_with_is_refused_in_one_sentence(tmp_path, spoil, message):
    path = tmp_path / "c.safetensors"
    fitted().save(path)
    tensors, header = read(path)
    spoil(tensors, header)
    save_file(tensors, path, metadata={"modgap": json.dumps(header)})
    with pytest.raises(InputError) as refused:
        Correction.load(path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fitted(bank=Y[:, :5]), "must have the 12 columns of the rows, got 5"),
        (lambda: fitted(bank=Y[:19]), "at least 20 queries, got 19"),
        (lambda: fitted(bank=np.where(np.arange(70)[:, None] == 3, np.nan, Y)), "NaN or infinity"),
        (
            lambda: Calibrate(hubs=0.5).fit_moments(PairMoments.from_batch(X, Y)),
            "needs rows for its bank",
        ),
        (lambda: fitted(bank=X), "its rows are image rows"),  # recognised as images
        (lambda: Center().fit(X, Y, bank=Y), "takes no bank of queries"),
        (lambda: Calibrate(hubs=2.0).fit(X, Y), "hubs must be between 0 and 1"),
        (lambda: Calibrate(hubs=0.5, form="blocks").fit(X, Y), "form must be 'single'"),
        (lambda: Calibrate(hubs=0.5, neighbours=40).fit(X, Y), "at most half of the bank"),
        (
            lambda: Calibrate(hubs=0.5).fit(X * 1e6, Y * 1e6, rows="given"),
            "beyond half precision",
        ),
        (
            lambda: replace(fitted(), metric="cosine"),
            "Hubs are ranked by inner product, and this correction by cosine",
        ),
        (lambda: replace(fitted(), queries=("image", "text")), "serve one query modality"),
        (lambda: Hubs(0.5, 5, np.ones((30, 2)), keys=np.arange(3)), "one key per query"),
        (lambda: fitted().then(Center().fit(X, Y).correction_), "can only be the last"),
    ],
)
def test_what_cannot_be_a_bank_is_refused_in_one_sentence(call, message):
    with pytest.raises(InputError) as refused:
        call()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_all_rows_of_the_fit_are_recognised_in_memory_and_their_own_queries_left_out():
    data = Modalities.of(X, Y)
    correction = Calibrate(hubs=0.5, neighbours=6).fit(data).correction_
    for name, rows in (("image", X), ("text", Y)):
        np.testing.assert_array_equal(
            correction.apply(rows, name), correction.apply(rows, name, keys=data.keys_of(name))
        )
        some = correction.apply(rows[:50], name)  # not all of them: nothing is left out
        assert not np.array_equal(some, correction.apply(rows, name)[:50])
    labels = [f"item {i}" for i in range(70)]
    named = Modalities.of(X, Y, groups=(labels, labels))
    correction = Calibrate(hubs=0.5, neighbours=6).fit(named).correction_
    with pytest.warns(OwnQueriesWarning, match=r"known by group\. Pass keys"):
        correction.apply(X, "image")
