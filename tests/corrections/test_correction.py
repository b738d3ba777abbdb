"""A correction: roles, chains, the way back, and the same thing as a torch module."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.corrections import (
    Affine,
    Calibrate,
    Center,
    Correction,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    next_commands,
)
from modgap.io import open_embeddings
from modgap.moments import PairMoments
from modgap.search import search
from reference import unit


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


def test_the_queries_served_are_named_once_in_the_order_of_the_names():
    maps = {(name, "document"): Affine(2) for name in "abc"}
    assert Correction(tuple("abc"), maps, queries=("c", "a", "c")).queries == ("a", "c")
    assert Correction(tuple("abc"), maps, queries="b").queries == ("b",)
    assert Correction(tuple("abc"), maps).queries == ("a", "b", "c")
    with pytest.raises(ValueError, match="modality must be one of 'a', 'b', 'c', got 'd'"):
        Correction(tuple("abc"), maps, queries=("d",))


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
        (
            ("a", "b"),
            {("a", "document"): Affine(2), ("b", "document"): Affine(3)},
            "cosine",
            "take rows of one dimension",
        ),
        (
            ("a", "b"),
            {("a", "document"): Affine(2), ("b", "document"): Affine(2, np.ones((3, 2)))},
            "cosine",
            "give rows of one dimension",
        ),
    ],
)
def test_a_correction_that_makes_no_sense_cannot_be_made(names, maps, metric, message):
    with pytest.raises(ValueError, match=message):
        Correction(names, maps, metric)


def test_then_applies_one_correction_after_the_other_in_every_role(pairs):
    X, Y = pairs
    first = OrthogonalShift("y", 0.5).fit(X, Y).correction_
    second = Whiten().fit(first.x(X), first.y(Y), rows="given").correction_
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
    given = Center().fit(X, Y, rows="given").correction_
    with pytest.raises(ValueError, match="Apply the two one after the other"):
        center.then(given)
    with pytest.raises(ValueError, match="can follow only one that gives unit rows"):
        OrthogonalShift("y", 0.5).fit(X, Y).correction_.then(center)


def test_a_chain_serves_the_queries_that_both_serve(pairs):
    X, Y = pairs
    for_texts, for_images = (
        Calibrate().fit(X, Y, queries=name).correction_ for name in ("text", "image")
    )
    turned = Procrustes().fit(X, Y).correction_
    both = turned.then(for_texts)
    assert both.queries == ("text",)
    expected = for_texts.y(turned.y(5 * Y), "query")
    np.testing.assert_allclose(both.y(Y, "query"), expected, atol=1e-12)
    back = for_images.inverse()
    assert back.queries == ("image",)
    with pytest.raises(ValueError, match="serve no queries in common: text, then image"):
        turned.then(for_texts).then(back)


def test_the_inverse_takes_rows_of_every_role_back(pairs):
    X, Y = (unit(rows) for rows in pairs)  # lengths do not come back
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


@pytest.mark.parametrize(
    ("corrector", "keeps"),
    [
        (Calibrate(), True),
        (Calibrate(form="blocks"), True),
        (Calibrate(form="compromise"), True),
        (Calibrate("mixed"), False),
        (Calibrate("mixed", "blocks"), False),
        (Center(), False),
        (Shift(0.5), False),
        (Shift(0.0), True),
        (OriginShift(0.5, "x"), False),
        (OrthogonalShift("y", 0.5), False),
        (OrthogonalShift("y", 0.5, amount=0.0), True),
        (Whiten(), False),
        (Procrustes(), False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("rows", ["unit", "given"])
def test_whether_rankings_are_kept_is_read_from_the_maps(pairs, corrector, keeps, rows):
    X, Y = pairs
    correction = corrector.fit(X, Y, rows=rows).correction_
    assert correction.keeps_rankings is keeps
    names = dict(zip(correction.names, pairs, strict=True))
    changed = False
    for asking in correction.queries:
        for held, documents in names.items():
            given = names[asking], documents
            if rows == "unit":
                given = unit(given[0]), unit(given[1])
            asked = correction.apply(names[asking], asking, "query")
            stored = correction.apply(documents, held)
            orders = [
                search(*sides, len(documents), correction.metric)[0]
                for sides in (given, (asked, stored))
            ]
            changed = changed or not np.array_equal(*orders)
    assert changed is not keeps


@pytest.mark.parametrize(
    ("stored", "asked", "slope"),
    [
        (Affine(3, scale=2.0, offset=np.ones(3)), Affine(3), 2.0),
        (Affine(3, scale=-2.0), Affine(3), None),
        (Affine(3), Affine(3, offset=np.ones(3)), None),
        (Affine(3), Affine(3, normalise=True), None),
        (Affine(3, np.roll(np.eye(3), 1, 0)), Affine(3, np.roll(np.eye(3), 1, 0), 0.5), 0.5),
        (Affine(3, np.roll(np.eye(3), 1, 0)), Affine(3), None),
        (Affine(3, blocks=(0.0, 1.0)), Affine(3, blocks=(3.0, 4.0)), 4.0),
    ],
)
def test_the_slope_is_that_of_the_corrected_scores(rng, stored, asked, slope):
    maps = {("a", "document"): stored, ("b", "document"): stored, ("a", "query"): asked}
    correction = Correction(("a", "b"), maps, "inner_product", queries=("a",))
    assert correction.slope("a", "b") == slope
    assert correction.keeps_rankings is (slope is not None)
    queries, documents = rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    scores = asked(queries) @ stored(documents).T
    rest = scores - (slope or 0) * queries @ documents.T
    constant = np.allclose(rest, rest[:, :1], atol=1e-12)
    assert constant is (slope is not None)


def test_a_correction_says_what_it_demands(pairs):
    X, Y = pairs
    assert str(Calibrate().fit(X, Y).correction_).splitlines() == [
        "Calibrate(mode='keep'), for text queries",
        "  columns    12 before, 12 after",
        "  documents  brought to unit length, scaled, shifted, each modality by its own map",
        "  queries    text only: brought to unit length, nothing else",
        "  rank by    inner product (cosine undoes the correction)",
    ]
    blocks = Calibrate("mixed", "blocks").fit(X, Y, rows="given").correction_
    assert str(blocks).splitlines()[1:4] == [
        "  columns    12 before, 24 after",
        "  documents  shifted, brought to unit length, laid out in 2 blocks, "
        "each modality by its own map",
        "  queries    shifted, brought to unit length, laid out in 2 blocks, "
        "each modality by its own map",
    ]
    shift = OrthogonalShift("y", 0.5).fit(X, Y).correction_
    assert str(shift).splitlines()[2:] == [
        "  documents  image: brought to unit length, nothing else; "
        "text: brought to unit length, shifted",
        "  queries    brought to unit length, nothing else",
        "  rank by    Euclidean distance",
    ]
    assert "  queries    the same as documents" in str(Center().fit(X, Y).correction_)


def test_the_next_commands_name_the_file_the_modalities_and_who_asks(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    correction = Calibrate().fit(*pairs, names=("a photo", "text")).correction_
    assert next_commands({"my fix.safetensors": correction}) == [
        "modgap apply 'my fix.safetensors' 'a photo.npy' --modality 'a photo' "
        "-o a_photo-documents.npy",
        "modgap apply 'my fix.safetensors' text.npy --modality text -o text-documents.npy",
        "modgap apply 'my fix.safetensors' QUERIES.npy --modality text --role query "
        "-o text-queries.npy",
        "modgap index build both.faiss 'my fix.safetensors' 'a photo=a photo.npy' text=text.npy",
    ]
    np.save("my i.npy", pairs[0])
    np.save("t.npy", pairs[1])
    sides = {"a photo": open_embeddings("my i.npy"), "text": open_embeddings("t.npy")}
    own = next_commands({"correction.safetensors": correction}, sides=sides)
    assert own[0].startswith("modgap apply correction.safetensors 'my i.npy' --modality 'a photo'")
    assert own[-1].endswith("'a photo=my i.npy' text=t.npy")


def test_means_alone_are_enough_for_what_needs_no_more(pairs):
    moments = PairMoments.from_batch(*pairs, detail="mean")
    correction = Center().fit_moments(moments).correction_
    assert dict(correction.fitted) == {}
    np.testing.assert_allclose(correction.x(pairs[0]), Center().fit(*pairs).correction_.x(pairs[0]))


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


@pytest.mark.parametrize("length", [1e-30, 1.0, 1e30])
def test_gradients_of_unit_rows_are_those_of_the_formula(length):
    torch = pytest.importorskip("torch")
    correction = Correction.identity(3)
    unit_maps = {key: Affine(3, normalise=True) for key in correction.maps}
    module = Correction(correction.names, unit_maps).to_torch()
    start = torch.tensor([[3.0, 4.0, 0.0], [1.0, -2.0, 2.0]]) * length
    rows = start.clone().requires_grad_()
    weights = torch.tensor([1.0, 0.5, -2.0])
    (module(rows, "text") @ weights).sum().backward()
    directions, lengths = start / length, start.double().norm(dim=1, keepdim=True)
    directions = directions / directions.norm(dim=1, keepdim=True)
    along = (directions @ weights)[:, None] * directions
    np.testing.assert_allclose(rows.grad.double() * lengths, weights - along, rtol=1e-5, atol=1e-6)


def test_the_torch_module_leaves_a_row_of_zeros_and_refuses_other_columns(pairs):
    torch = pytest.importorskip("torch")
    module = Calibrate().fit(*pairs).correction_.to_torch()
    assert torch.equal(module(torch.zeros(1, 12), "text", "query"), torch.zeros(1, 12))
    with pytest.raises(ValueError, match="for rows of 12 columns, got 5"):
        module(torch.ones(1, 5), "text", "query")
    with pytest.raises(ValueError, match="serves text queries, not image queries"):
        module(torch.ones(1, 12), "image", "query")


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
