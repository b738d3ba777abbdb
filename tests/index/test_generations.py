"""Old and new documents searched as one: each document once, by the model it has moved to."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import refuse, succeed
from index_services import STORES, MemoryIndex
from modgap.core.checks import InputError
from modgap.corrections import Calibrate, Correction, ExpectedWrong
from modgap.diagnosis import migrate
from modgap.index import Generations, open_generations, open_index

N = 400
NAMES = ("image", "text")


def models(n=N, d=10, width=14, seed=0):
    """The same items by an old and a new model."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, d))
    old = {
        name: (latent + 0.4 * rng.normal(size=(n, d)) + shift).astype(np.float32)
        for name, shift in zip(NAMES, (2, -2), strict=True)
    }
    basis = np.linalg.qr(rng.normal(size=(width, d)))[0].T
    return old, {
        name: (rows @ basis + 0.05 * rng.normal(size=(n, width))).astype(np.float32)
        for name, rows in old.items()
    }


OLD, NEW = models()


@pytest.fixture(scope="module", params=["expected-wrong", "calibrate", "as it is"])
def found(request):
    """The correction of the old index, and the migration from it."""
    fitted = {
        "expected-wrong": lambda: ExpectedWrong().fit(OLD["image"], OLD["text"]).correction_,
        "calibrate": lambda: Calibrate().fit(OLD["image"], OLD["text"]).correction_,
        "as it is": lambda: Correction.identity(10),
    }[request.param]()
    return fitted, migrate(OLD, NEW, fitted)


def written(correction, rows, some=slice(None)):
    """An index in memory of some of the rows by number."""
    index = MemoryIndex({}, correction).open(create=True)
    for name, one in rows.items():
        numbers = np.arange(len(one))[some]
        index.write(one[numbers], name, ids=numbers.tolist(), trust_rows=True)
    index.finish()
    return index


def both_of(found, moved):
    fitted, made = found
    old, new = written(fitted, OLD), written(made.new_correction, NEW, moved)
    reopened = MemoryIndex(old._held, made.correction).open()
    return Generations(reopened, new, made.background)


def listed(hits, line):
    return [*zip(hits.modalities[line], hits.ids[line], hits.sources[line], strict=True)]


@given(st.integers(0, 2**32), st.integers(1, N - 1), st.integers(1, 40))
@settings(deadline=None, max_examples=10)
def test_a_document_comes_once_and_from_the_index_it_has_moved_to(found, seed, n, k):
    moved = np.sort(np.random.default_rng(seed).permutation(N)[:n])
    hits = both_of(found, moved).search(NEW["text"][:5], "text", k)
    assert hits.ids.shape == (5, k)
    for line in range(5):
        results = listed(hits, line)
        assert len({(name, key) for name, key, _ in results}) == k
        assert {source for _, key, source in results if key in moved} <= {"new"}
        assert {source for _, key, source in results if key not in moved} <= {"old"}
        within = [*zip(results, hits.scores[line], strict=True)]
        for source in ("old", "new"):
            for name in NAMES:
                scores = [s for (kind, _, of), s in within if (kind, of) == (name, source)]
                assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("only", [None, "image"])
def test_all_moved_it_is_the_new_index_and_none_moved_the_old_one(found, only):
    fitted, made = found
    every = both_of(found, np.arange(N))
    hits = every.search(NEW["text"][:20], "text", 5, only)
    assert {*hits.sources.ravel()} == {"new"}
    alone = every.new.search(NEW["text"][:20], "text", 5, "image")
    images = every.search(NEW["text"][:20], "text", 5, "image")
    np.testing.assert_array_equal(images.ids, alone.ids)
    none = written(made.new_correction, NEW, np.arange(1))
    for name in NAMES:  # nothing of the others
        none._held["documents"].pop((name, 0))
    before = Generations(every.old, none, made.background).search(NEW["text"][:20], "text", 5, only)
    assert {*before.sources.ravel()} == {"old"}
    if fitted.background is not None:
        wanted = every.old.search(NEW["text"][:20], "text", 5, only)
        np.testing.assert_array_equal(before.ids, wanted.ids)
        np.testing.assert_allclose(before.expected_wrong, wanted.expected_wrong)


def test_what_is_left_is_found_however_much_has_moved(found):
    """The old index is searched deeper where most of its best results have moved."""
    last = 17
    both = both_of(found, np.delete(np.arange(N), last))
    hits = both.search(NEW["text"][last], "text", 5)
    assert ("text", last, "old") in listed(hits, 0)


def test_shares_of_both_follow_what_has_moved(found):
    """With a tenth moved, the new index gives about a tenth of the results, not half of them."""
    some = np.sort(np.random.default_rng(0).permutation(N)[: N // 8])
    hits = both_of(found, some).search(NEW["text"], "text", 10)
    assert 0.04 < np.mean(hits.sources == "new") < 0.3


def test_moved_documents_may_be_deleted_from_the_old_index(found):
    """What is found then is nearly the same: none of them came from there."""
    some = np.sort(np.random.default_rng(0).permutation(N)[: N // 2])
    both = both_of(found, some)
    before = both.search(NEW["text"][:100], "text", 10)
    for name in NAMES:
        both.old.delete(some.tolist(), name)
    hits = both.search(NEW["text"][:100], "text", 10)
    for one in (before, hits):
        assert abs(np.mean(one.sources == "new") - 0.5) < 0.1
    same = [{*listed(hits, line)} & {*listed(before, line)} for line in range(100)]
    assert np.mean([len(one) for one in same]) > 8.5


def test_a_cut_leaves_out_what_is_as_likely_wrong():
    fitted = ExpectedWrong().fit(OLD["image"], OLD["text"]).correction_
    both = both_of((fitted, migrate(OLD, NEW, fitted)), np.arange(N // 2))
    hits = both.search(NEW["text"][:50], "text", 10, at_most=1)
    kept = np.isfinite(hits.scores)
    assert 0 < kept.sum() < kept.size
    assert np.all(hits.expected_wrong[:, 1:][kept[:, 1:]] <= 1)
    with pytest.raises(InputError, match="at_most must be at least"):
        both.search(NEW["text"][:2], "text", 10, at_most=1e-6)


def test_the_share_that_has_moved_is_that_of_all_documents(found):
    """Whether those that have moved are still in the old index, or are deleted there."""
    both = both_of(found, np.arange(60))
    both.new.write(NEW["image"][:30], "image", ids=range(1000, 1030), trust_rows=True)
    moved = both.moved()
    assert moved.old == {"image": N, "text": N}
    assert moved.new == {"image": 90, "text": 60}
    assert moved.both == {"image": 60, "text": 60}
    assert moved.share("text") == pytest.approx(60 / N)
    assert moved.share("image") == pytest.approx(90 / (N + 30))
    assert sorted(both.left("image")) == [*range(60, N)]
    both.old.delete(list(range(60)), "text")
    assert both.moved().share("text") == pytest.approx(60 / N)
    assert both.moved().both["text"] == 0


def test_indexes_that_do_not_belong_together_are_refused(found):
    fitted, made = found
    old = MemoryIndex(written(fitted, OLD)._held, made.correction).open()
    texts = MemoryIndex({}, made.new_correction).open(create=True)
    texts.write(NEW["image"], "image", ids=[f"item {i}" for i in range(N)], trust_rows=True)
    with pytest.raises(InputError, match="the same id in both indexes"):
        Generations(old, texts, made.background)
    other = Correction.identity(14, ("image", "sound"))
    sounds = written(other, {"image": NEW["image"], "sound": NEW["text"]})
    with pytest.raises(InputError, match="must hold the same modalities"):
        Generations(old, sounds, made.background)


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_every_store_says_what_its_documents_are_called(store):
    correction = Correction.identity(10)
    for ids in ([*range(0, 2 * N, 2)], [f"a'b {i}" for i in range(N)]):
        with store.open(correction, create=True, replace=True) as index:
            index.write(OLD["image"], "image", ids=ids, trust_rows=True)
            index.write(OLD["text"][:7], "text", ids=ids[:7], trust_rows=True)
        with store.open(correction) as index:
            assert sorted(index.ids("image")) == sorted(ids)
            assert sorted(index.ids("text")) == sorted(ids[:7])
            assert index.held("text", [ids[3], ids[20]]) == {ids[3]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Rows by both models, and an index of the old ones."""
    pytest.importorskip("faiss", reason="faiss is not installed")
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        np.save(f"old-{name}.npy", OLD[name])
        np.save(f"new-{name}.npy", NEW[name])
        np.save(f"part-{name}.npy", NEW[name][:60])
    succeed(*["fit", "old-image.npy", "old-text.npy", "-o", "correction.safetensors"])
    succeed("index", "build", "old.faiss", "correction.safetensors", *files("old"))
    return tmp_path


def files(which):
    return [f"{name}={which}-{name}.npy" for name in NAMES]


MIGRATE = (
    "migrate old-image.npy,old-text.npy new-image.npy,new-text.npy --correction "
    "correction.safetensors -o moving"
)


def test_the_whole_way_by_commands_leaves_the_old_index_as_it_was(folder):
    before = hashlib.sha256((folder / "old.faiss").read_bytes()).hexdigest()
    for name, side in (("old", OLD), ("new", NEW)):
        np.save(f"{name}-queries.npy", side["text"][:20])
    asked = ["new-queries.npy", "--modality", "text", "-k", "3"]
    old = succeed(
        *["index", "search", "old.faiss", "correction.safetensors", "old-queries.npy", "-k", "3"]
    ).out
    said = succeed(*MIGRATE.split())
    assert re.search(r"(Use|Not enough pairs)\b", said.out)
    assert "undo:" in said.err
    succeed("index", "search", "old.faiss", "moving", *asked)
    succeed("index", "build", "new.faiss", "moving/new.safetensors", *files("part"))
    found = succeed("index", "search", "old.faiss", "moving", *asked, "--new-index", "new.faiss")
    assert {line.split()[4] for line in found.out.splitlines()[1:]} == {"old", "new"}
    status = ["index", "status", "old.faiss", "moving", "--new-index", "new.faiss"]
    said = succeed(*status, "--left", "left.txt").out
    assert [line.split() for line in said.splitlines()[1:]] == [
        ["image", "400", "60", "15.0%"], ["text", "400", "60", "15.0%"]
    ]  # fmt: skip
    left = (folder / "left.txt").read_text().splitlines()
    assert left == [f"{name}\t{i}" for name in NAMES for i in range(60, N)]
    assert succeed(*status, "--json").json["both"] == {"image": 60, "text": 60}
    # Undone: the old model's queries find what they found.
    assert hashlib.sha256((folder / "old.faiss").read_bytes()).hexdigest() == before
    again = succeed(
        *["index", "search", "old.faiss", "correction.safetensors", "old-queries.npy", "-k", "3"]
    ).out
    assert again == old
    with open_generations("moving", "old.faiss", "new.faiss") as both:
        assert both.moved().share() == 0.15
    with open_index("new.faiss", "moving/new.safetensors") as alone:
        assert alone.count() == 120


def test_what_cannot_be_is_refused_in_one_sentence(folder):
    succeed(*MIGRATE.split())
    status = "index status old.faiss moving --new-index"
    for command, message in (
        ("index status old.faiss correction.safetensors --new-index old.faiss", "modgap migrate"),
        (f"{status} none.faiss", "There is no index at none.faiss"),
        ("index status old.faiss correction.safetensors --left x.txt", "belong to --new-index"),
        ("index search old.faiss moving new-text.npy --new-table t", "belongs to --new-index"),
        (f"{status} old.faiss", "was built with another correction"),
        ("index search old.faiss moving old-text.npy", "rows of 14 columns, got 10"),
        ("migrate old-image.npy,old-text.npy,x.npy new-text.npy", "A set of rows is one path"),
        (MIGRATE.replace("-o moving", "-o old.faiss"), "-o takes a folder"),
        (MIGRATE.replace("new-text.npy", "part-text.npy"), "400 of the old one and 60 of the new"),
    ):
        assert message in refuse(*command.split()), command


def test_the_old_index_is_evaluated_with_new_queries(folder):
    succeed(*MIGRATE.split())
    said = succeed(
        "index", "evaluate", "old.faiss", "moving", *files("old"), "--queries", "text=new-text.npy",
    ).out  # fmt: skip
    assert said.splitlines()[1].split()[:3] == ["text", "200", "1.0000"]


def test_commands_that_know_one_model_only_say_so(folder):
    succeed(*MIGRATE.split())
    for command, message in (
        ("evaluate old-image.npy old-text.npy --correction moving", "queries of another model"),
        ("fit --extend moving audio=old-text.npy -o e.safetensors", "no modality can be added"),
        ("export moving --to json -o m.json", "changes rankings within a modality"),
        ("index evaluate old.faiss moving image=old-image.npy text=old-text.npy", "got 10"),
    ):
        assert message in refuse(*command.split()), command
    drift = "drift old-image.npy,old-text.npy old-image.npy,old-text.npy --correction moving"
    said = succeed(*drift.split()).out
    assert "not judged, its queries are of another model than its documents" in " ".join(
        said.split()
    )


def test_a_verdict_that_says_no_leaves_no_correction(folder):
    succeed(*MIGRATE.split())
    rng = np.random.default_rng(0)
    for name in NAMES:
        np.save(f"new-{name}.npy", rng.normal(size=(N, 14)))
    said = succeed(*MIGRATE.split())
    assert "Leave it alone" in said.out
    assert "next" not in said.err
    assert [path.name for path in (folder / "moving").iterdir()] == ["migration.json"]
