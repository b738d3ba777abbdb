"""A correction: roles, chains, the way back, and the same thing as a torch module."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.corrections import Affine, Center, Correction, OrthogonalShift, Shift, Whiten
from modgap.moments import PairMoments


@pytest.fixture
def with_roles(rng) -> Correction:
    """Every modality and role with a map of its own, five columns out of three."""
    maps = {
        (name, role): Affine(3, rng.normal(size=(5, 3)), 0.5, rng.normal(size=5), name == "image")
        for name in ("image", "text")
        for role in ("document", "query")
    }
    return Correction(("image", "text"), maps, "inner_product", {"method": "made up"})


def test_x_and_y_are_shortcuts_for_the_two_names_in_each_role(rng, with_roles):
    rows = rng.normal(size=(4, 3))
    for role in ("document", "query"):
        for name, short in (("image", with_roles.x), ("text", with_roles.y)):
            expected = with_roles.maps[name, role](rows)
            np.testing.assert_array_equal(short(rows, role), expected)
            np.testing.assert_array_equal(with_roles.apply(rows, name, role), expected)
    assert not np.allclose(with_roles.x(rows), with_roles.x(rows, "query"))
    assert (with_roles.dim_in, with_roles.dim_out) == (3, 5)


def test_a_query_without_a_map_of_its_own_is_mapped_like_a_document(pairs):
    X, Y = pairs
    correction = Shift(0.4).fit(X, Y).correction_
    assert not correction.roles_differ
    np.testing.assert_array_equal(correction.x(X, "query"), correction.x(X))
    np.testing.assert_array_equal(correction.y(Y, "query"), correction.y(Y, "document"))


def test_only_the_modality_that_was_given_a_query_map_has_one():
    maps = {("a", "document"): Affine(2), ("b", "document"): Affine(2)}
    maps["b", "query"] = Affine(2, scale=3.0)
    correction = Correction(("a", "b"), maps)
    assert correction.roles_differ
    assert correction.map("a", "query") is correction.map("a")
    np.testing.assert_array_equal(correction.y(np.ones((1, 2)), "query"), [[3.0, 3.0]])


def test_the_identity_changes_nothing(pairs):
    X, Y = pairs
    same = Correction.identity(12, metric="euclidean")
    assert same.metric == "euclidean"
    np.testing.assert_array_equal(same.x(X), X)
    np.testing.assert_array_equal(same.y(Y, "query"), Y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c, rows: c.apply(rows, "audio"), "modality must be one of 'image', 'text'"),
        (lambda c, rows: c.apply(rows, "txet"), "Did you mean 'text'"),
        (lambda c, rows: c.x(rows, "reader"), "role must be one of 'document', 'query'"),
        (lambda c, rows: c.x(rows[:, :2]), "for rows of 3 columns, got 2"),
        (lambda c, rows: c.y(rows * np.nan), "text has 4 rows with NaN or infinity"),
    ],
)
def test_a_wrong_modality_role_dimension_or_value_is_refused(with_roles, call, message):
    with pytest.raises(ValueError, match=message):
        call(with_roles, np.ones((4, 3)))


@pytest.mark.parametrize(
    ("names", "maps", "metric", "message"),
    [
        (("a", "a"), {}, "cosine", "must differ"),
        (("a", "b.c"), {}, "cosine", "no dot"),
        (("a", "b"), {("a", "document"): Affine(2)}, "cosine", "document map for 'b'"),
        (("a", "b"), {("c", "document"): Affine(2)}, "cosine", "modality must be one of"),
        (("a", "b"), {("a", "reader"): Affine(2)}, "cosine", "role must be one of"),
        (("a", "b"), {}, "manhattan", "metric must be one of"),
    ],
)
def test_a_correction_that_makes_no_sense_cannot_be_made(names, maps, metric, message):
    with pytest.raises(ValueError, match=message):
        Correction(names, maps, metric)


def test_maps_of_differing_dimensions_cannot_be_one_correction():
    with pytest.raises(ValueError, match="take rows of one dimension"):
        Correction(("a", "b"), {("a", "document"): Affine(2), ("b", "document"): Affine(3)})
    wider = Affine(2, np.ones((3, 2)))
    with pytest.raises(ValueError, match="give rows of one dimension"):
        Correction(("a", "b"), {("a", "document"): Affine(2), ("b", "document"): wider})


def test_then_applies_one_correction_after_the_other_in_every_role(pairs):
    X, Y = pairs
    first = OrthogonalShift("y", 0.5).fit(X, Y).correction_
    second = Whiten().fit(first.x(X), first.y(Y)).correction_
    both = first.then(second)
    for role in ("document", "query"):
        expected = second.x(first.x(X, role), role), second.y(first.y(Y, role), role)
        np.testing.assert_allclose(both.x(X, role), expected[0], atol=1e-10)
        np.testing.assert_allclose(both.y(Y, role), expected[1], atol=1e-10)
    assert not np.allclose(both.y(Y), both.y(Y, "query"))
    assert both.metric == "cosine"
    assert [step["method"] for step in both.about["steps"]] == ["OrthogonalShift", "Whiten"]


def test_then_refuses_other_names_and_maps_that_cannot_follow(pairs):
    X, Y = pairs
    center = Center().fit(X, Y).correction_
    with pytest.raises(ValueError, match="name the same modalities"):
        center.then(Center().fit(X, Y, names=("image", "audio")).correction_)
    with pytest.raises(ValueError, match="Apply the two one after the other"):
        center.then(center)


def test_the_inverse_takes_rows_of_every_role_back(pairs):
    X, Y = pairs
    correction = OrthogonalShift("x", 0.5).fit(X, Y).correction_
    back = correction.inverse()
    for role in ("document", "query"):
        np.testing.assert_allclose(back.x(correction.x(X, role), role), X, atol=1e-12)
        np.testing.assert_allclose(back.y(correction.y(Y, role), role), Y, atol=1e-12)
    assert not np.allclose(correction.x(X), X)
    assert back.about["of"]["method"] == "OrthogonalShift"


def test_a_correction_that_renormalises_says_why_it_has_no_inverse(pairs):
    with pytest.raises(ValueError, match="Keep the original rows to undo it"):
        Center().fit(*pairs).correction_.inverse()


def test_moments_of_shards_give_the_correction_of_all_rows(pairs):
    X, Y = pairs
    shards = zip(np.array_split(X, 4), np.array_split(Y, 4), strict=True)
    moments = [PairMoments.from_batch(a, b, paired=True) for a, b in shards]
    total = moments[0] + moments[1] + moments[2] + moments[3]
    for corrector in (Shift(0.3), Center(), Whiten(0.2), OrthogonalShift("y", 0.7)):
        whole = corrector.fit(X, Y, names=("a", "b"), model="m").correction_
        sharded = corrector.fit_moments(total, names=("a", "b"), model="m").correction_
        np.testing.assert_allclose(sharded.x(X), whole.x(X), atol=1e-9)
        np.testing.assert_allclose(sharded.y(Y), whole.y(Y), atol=1e-9)
        assert sharded.about == whole.about


def test_a_correction_says_what_it_was_fitted_on(pairs):
    X, Y = pairs
    about = Shift(0.3).fit(X, Y[:50], names=("a", "b"), model="ViT-B/16").correction_.about
    assert about["method"] == "Shift"
    assert about["parameters"] == {"amount": 0.3}
    assert about["fitted_on"] == {"a": 60, "b": 50}
    assert about["model"] == "ViT-B/16"
    same = Center().fit(X, Y[:50]).correction_.about["means_sha256"]
    other = Center().fit(X, Y[:49]).correction_.about["means_sha256"]
    assert about["means_sha256"] == same != other


# --- As a torch module ---------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("float64", 1e-14)])
def test_the_torch_module_equals_numpy_in_every_role(rng, with_roles, precision, tolerance):
    torch = pytest.importorskip("torch")
    module = with_roles.to_torch()
    rows = rng.normal(size=(7, 3)).astype(precision)
    for name in ("image", "text"):
        for role in ("document", "query"):
            out = module(torch.from_numpy(rows), name, role)
            assert str(out.dtype) == f"torch.{precision}"
            expected = with_roles.apply(rows, name, role)
            np.testing.assert_allclose(out.numpy(), expected, atol=tolerance, rtol=tolerance)


def test_the_torch_module_without_query_maps_uses_the_document_map(pairs):
    torch = pytest.importorskip("torch")
    correction = Center().fit(*pairs, names=("a picture", "ein Satz/ß")).correction_
    rows = torch.from_numpy(pairs[1])
    out = correction.to_torch()(rows, "ein Satz/ß", "query")
    np.testing.assert_allclose(out.numpy(), correction.y(pairs[1]), atol=1e-14)


def test_gradients_flow_through_the_torch_module(with_roles):
    torch = pytest.importorskip("torch")
    rows = torch.ones((2, 3), dtype=torch.float64, requires_grad=True)
    with_roles.to_torch()(rows, "text").sum().backward()
    affine = with_roles.map("text")
    expected = affine.scale * affine.matrix.sum(axis=0)
    np.testing.assert_allclose(rows.grad.numpy(), np.tile(expected, (2, 1)), atol=1e-12)


def test_the_torch_module_survives_its_state_and_a_change_of_precision(rng, with_roles):
    torch = pytest.importorskip("torch")
    first = with_roles.to_torch()
    zeroed = Correction(
        with_roles.names,
        {
            key: Affine(3, 0 * m.matrix, m.scale, 0 * m.offset, m.renormalise)
            for key, m in with_roles.maps.items()
        },
    ).to_torch()
    rows = torch.from_numpy(rng.normal(size=(7, 3)))
    assert not torch.equal(zeroed(rows, "text"), first(rows, "text"))
    zeroed.load_state_dict(first.state_dict())
    assert torch.equal(zeroed(rows, "text"), first(rows, "text"))
    narrow = first.to(torch.float32)
    assert {buffer.dtype for buffer in narrow.buffers()} == {torch.float32}
    out = narrow(rows.to(torch.float32), "text")
    np.testing.assert_allclose(out.numpy(), with_roles.y(rows.numpy()), atol=1e-5)


def test_the_torch_module_refuses_a_wrong_modality_and_role(with_roles):
    torch = pytest.importorskip("torch")
    module = with_roles.to_torch()
    with pytest.raises(ValueError, match="modality must be one of"):
        module(torch.ones(1, 3), "audio")
    with pytest.raises(ValueError, match="role must be one of"):
        module(torch.ones(1, 3), "text", "reader")
