"""Documents are added, replaced and deleted by id: an index stays what a new one would be."""

from __future__ import annotations

import contextlib
import gc

import numpy as np
import pytest

from index_services import IN_MEMORY, LIBRARIES, STORES, exit_status, make_store, modgap, rows
from modgap.core.checks import InputTypeError, InputValueError
from modgap.corrections import (
    Calibrate,
    Center,
    ExpectedWrong,
    extend,
    own_keys,
    refit_background,
)
from modgap.index import FaissIndex, open_index
from modgap.index.faiss_objects import searched_index
from modgap.io import Embeddings, Modalities
from modgap.search import search_corrected

X, Y = rows(n=120)
N, NAMES = len(X), ("image", "text")
SIDES = dict(zip(NAMES, (X, Y), strict=True))
CALIBRATED = Calibrate().fit(X, Y).correction_
BY_ROW = ExpectedWrong().fit(X, Y).correction_


def numbered(n=N, sides=SIDES):
    """The first rows of each modality with their numbers as ids."""
    return {
        name: Embeddings.from_array(side[:n], ids=range(len(side[:n])))
        for name, side in sides.items()
    }


BY_ID = ExpectedWrong().fit(Modalities.of(numbered())).correction_
pytestmark = pytest.mark.filterwarnings(
    "ignore::modgap.corrections.background.ForeignQueriesWarning"
)


def by_document(hits, names_of=None):
    """Score and expected wrong results of each hit, by query."""
    expected = hits.scores if hits.expected_wrong is None else hits.expected_wrong
    return [
        {
            (name, key if names_of is None else names_of[name][key]): values
            for key, name, *values in zip(*line, strict=True)
            if name
        }
        for line in zip(hits.ids, hits.modalities, hits.scores, expected, strict=True)
    ]


def check_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        # Of documents with equal scores any may come last.
        left, right = (sorted(a.keys() - b.keys()) for a, b in ((one, other), (other, one)))
        shared = [*(one.keys() & other.keys())]
        assert [name for name, _ in left] == [name for name, _ in right]
        np.testing.assert_allclose(
            [one[key] for key in shared + left], [other[key] for key in shared + right],
            rtol=1e-3, atol=1e-5,
        )  # fmt: skip


def check_answers(index, correction, held, queries, k=8):
    """What exact search over a plain dictionary of raw rows answers."""
    assert [index.count(name) for name in held] == [len(side) for side in held.values()]
    stored, ids = {}, {}
    for name, side in held.items():
        ids[name] = [*side]
        given = Embeddings.from_array(np.stack([*side.values()]), ids=ids[name])
        keys = own_keys(correction, given, name)
        stored[name] = correction.apply(given.rows(), name, keys=keys)
    wanted = search_corrected(correction, queries, stored, k, modality="text")
    check_same(by_document(index.search(queries, "text", k)), by_document(wanted, ids))


class PowerCut(Exception):
    """What ends a change after its first batch."""


def cutting(step):
    """The step once, and then a power cut."""
    done = []

    def cut(*given, **named):
        if done:
            raise PowerCut
        done.append(step(*given, **named))

    return cut


def cut_after_one_batch(index):
    for name in ("_add", "_remove"):
        setattr(index, name, cutting(getattr(index, name)))


class Walk:
    """Random changes of an index, and of a dictionary of what it should hold."""

    def __init__(self, store, correction, seed):
        self.store, self.correction = store, correction
        self.rng = np.random.default_rng(seed)
        self.held = {name: dict(enumerate(side[:40])) for name, side in SIDES.items()}
        with store.open(correction, create=True) as index:
            for name, side in self.held.items():
                index.write(np.stack([*side.values()]), name, ids=[*side])
        # What was written and not finished is known when it comes again.
        self.begun, self.left = [], []
        self.index = None
        self.reopen()

    def reopen(self):
        """As a later process: what was not finished is gone from a file."""
        if self.index is not None:
            self.index.close()
        if self.store.kind == "faiss" and self.index is not None:
            self.held = self.saved
        self.index = self.store.open(self.correction, batch_rows=2)
        self.left += self.begun
        self.begun.clear()
        self.save()

    def finish(self):
        self.index.finish()
        self.begun.clear()
        self.save()

    def save(self):
        self.saved = {name: dict(side) for name, side in self.held.items()}

    def step(self):
        name = self.rng.choice(NAMES)
        side, n = self.held[name], int(self.rng.integers(1, 6))
        ids = self.rng.choice(90, n, replace=False).tolist()
        given = SIDES[name][self.rng.integers(N, size=n)]
        given = given + 0.1 * self.rng.normal(size=given.shape).astype(np.float32)
        what = self.rng.choice(["add", "replace", "delete"])
        if what == "add" and (known := side.keys() & {*ids}):
            if (name, ids) not in self.left:
                with pytest.raises(InputValueError, match=f"holds {len(known)} of these ids"):
                    self.index.write(given, name, ids=ids)
            ids = [key for key in ids if key not in known] or [max(side) + 1]

        def change():
            if what == "delete":
                return self.index.delete(ids, name)
            return self.index.write(given[: len(ids)], name, ids=ids, upsert=what == "replace")

        if self.rng.random() < 0.1:  # killed after a batch, and run again
            cut_after_one_batch(self.index)
            with contextlib.suppress(PowerCut):
                change()
            self.reopen()
            self.index.search(Y[:1], "text")
            if self.store.kind == "faiss":
                return
            change()
        else:
            there = len(side.keys() & {*ids})
            assert change() == (there if what == "delete" else len(ids))
        if what == "delete":
            for key in ids:
                self.held[name].pop(key, None)
        else:
            self.held[name].update(zip(ids, given, strict=False))
        self.begun.append((name, ids))
        if self.rng.random() < 0.2:
            self.finish()
        if self.rng.random() < 0.1:
            self.finish()
            self.reopen()

    def run(self, steps, every):
        for step in range(steps):
            self.step()
            if step % every == every - 1:
                check_answers(self.index, self.correction, self.held, Y[step % N : step % N + 3])
        self.finish()
        self.reopen()
        check_answers(self.index, self.correction, self.held, Y[:5])
        self.index.close()


@pytest.mark.parametrize("correction", [BY_ID, CALIBRATED], ids=["expected wrong", "calibrated"])
@pytest.mark.parametrize("store", ["memory", *STORES], indirect=True)
def test_an_index_answers_as_a_plain_dictionary_does_whatever_changes(store, correction):
    Walk(store, correction, seed=0).run(300 if store.kind in ("memory", "faiss") else 40, every=5)


@pytest.mark.long
@pytest.mark.parametrize("store", ["memory", *STORES], indirect=True)
def test_a_thousand_changes_leave_what_a_plain_dictionary_holds(store):
    Walk(store, BY_ID, seed=1).run(1000, every=5)


FACTORIES = ["Flat", "SQ8", "PQ3x4", "IVF4,Flat", "IVF4,SQ8", "IVF4,PQ3x4", "PCA4,Flat",
             "PCA4,IVF4,Flat", "HNSW8,Flat", "HNSW8,SQ8", "PCA4,HNSW8"]  # fmt: skip


@pytest.mark.parametrize("corrector", [ExpectedWrong(), Calibrate(hubs=0.5)], ids=repr)
@pytest.mark.parametrize("factory", FACTORIES)
def test_what_is_deleted_from_a_faiss_index_changes_no_score_of_the_rest(
    tmp_path, factory, corrector
):
    pytest.importorskip("faiss", reason="faiss is not installed")
    images, texts = rows(n=400)
    correction = corrector.fit(images, texts).correction_
    options = {"ef_search": 800} if "HNSW" in factory else {"nprobe": 4} if "IVF" in factory else {}
    with open_index(tmp_path / "x.faiss", correction, create=True, factory=factory) as index:
        index.write_all({"image": images, "text": texts})
    index = open_index(tmp_path / "x.faiss", correction, **options)
    before = by_document(index.search(texts[:5], "text", 800))
    gone = {(name, key) for name in NAMES for key in range(0, 400, 3)}
    for name in NAMES:
        assert index.delete([*range(0, 400, 3)], name) == 134
    after = index.search(texts[:5], "text", 800)
    for one, other in zip(by_document(after), before, strict=True):
        assert not one.keys() & gone
        # A graph has rows that no search comes to: no more than before.
        assert len(one) / 532 >= len(other) / 800 - (0.02 if "HNSW" in factory else 0)
        for key, (score, _) in one.items():
            assert score == pytest.approx(other.get(key, [score])[0], abs=1e-5)
    index.write(images[:9], "image", ids=np.arange(9), upsert=True)  # 0, 3 and 6 were deleted
    index.finish()
    index.close()
    with open_index(tmp_path / "x.faiss", correction, **options) as index:
        assert (index.count("image"), index.count("text")) == (269, 266)
        found = by_document(index.search(texts[:5], "text", 800))
        rest = [{key: hit for key, hit in one.items() if key in other}
                for one, other in zip(found, before, strict=True)]  # fmt: skip
        for one, other in zip(rest, before, strict=True):
            for key, (score, _) in one.items():
                assert score == pytest.approx(other[key][0], abs=1e-5)
        again = [{0, 3, 6} & {key for name, key in one if name == "image"} for one in found]
        assert all(again) if "HNSW" in factory else all(len(one) == 3 for one in again)
        assert all(("image", 12) not in one for one in found)


def test_an_index_that_lost_every_document_finds_nothing_and_takes_new_ones(store):
    with store.open(BY_ID, create=True) as index:
        index.write_all(numbered(20))
    with store.open(BY_ID) as index:
        assert index.delete(range(20), "image") == 20
        only_texts = index.search(Y[:3], "text", 5)
        assert set(only_texts.modalities.ravel()) == {"text"}
        assert index.delete(np.arange(20), "text") == 20
        assert index.search(Y[:3], "text", 5).ids.shape == (3, 0)
    with store.open(BY_ID) as index:
        assert index.count() == 0
        assert index.search(Y[:3], "text", 5).ids.shape == (3, 0)
        assert index.write(Y[:2], "text", ids=[20, 21]) == 2
        assert sorted(index.search(Y[0], "text", 5).ids[0].tolist()) == [20, 21]


def test_rows_without_ids_never_get_the_number_of_a_deleted_one(store):
    with store.open(CALIBRATED, create=True) as index:
        index.write(X[:10], "image")
    with store.open(CALIBRATED) as index:
        assert index.delete([3, 9], "image") == 2
        assert index.write(X[20:22], "image") == 2
        assert index.write(X[22:23], "image") == 1
    with store.open(CALIBRATED) as index:
        found = index.search(Y[0], "text", 20)
        assert sorted(found.ids[0].tolist()) == [0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12]


@pytest.mark.parametrize("correction", [BY_ROW, BY_ID], ids=["by row", "by id"])
@pytest.mark.parametrize("store", ["memory", "faiss"], indirect=True)
def test_a_document_that_is_replaced_by_itself_keeps_its_score(store, correction):
    with store.open(correction, create=True) as index:
        index.write_all(numbered())
        before = index.search(Y, "text", 10)
    with store.open(correction) as index:
        for name, side in SIDES.items():
            some = [5, 17, 118, 0]
            assert index.write(side[some], name, ids=some, upsert=True) == 4
        check_same(by_document(index.search(Y, "text", 10)), by_document(before))


@pytest.mark.parametrize("store", ["memory", "lance", "faiss"], indirect=True)
def test_two_vectors_of_a_document_come_and_go_together(store):
    both = {name: ExpectedWrong().fit(X, Y, queries=name).correction_ for name in NAMES}
    with store.open(both, create=True) as index:
        index.write_all({name: side[:40] for name, side in SIDES.items()})
    with store.open(both["text"]) as index:
        assert index.delete([1, 2, 3], "image") == 3  # whichever queries it was opened for
    with store.open(both) as index:
        index.write(X[50:52], "image", ids=[2, 90], upsert=True)
        for name in NAMES:
            found = index.search(SIDES[name][:1], name, 200).ids[0]
            wanted = [*range(40), *(key for key in range(40) if key not in (1, 3)), 90]
            assert sorted(found.tolist()) == sorted(wanted)


@pytest.mark.parametrize("kind", ["faiss", "lance", "pgvector", "chroma"])
def test_graphs_find_what_is_there_after_changes(tmp_path, kind):
    store = make_store(kind, tmp_path)
    options = {"factory": "HNSW16,Flat"} if kind == "faiss" else {"ef_search": 200}
    held = {name: dict(enumerate(side)) for name, side in SIDES.items()}
    with store.open(BY_ID, create=True, **options) as index:
        index.write_all(numbered())
    with store.open(BY_ID) as index:
        for name, side in held.items():
            index.delete([*range(50)], name)
            index.write(SIDES[name][:10] + 0.1, name, ids=range(60, 70), upsert=True)
            held[name] = {key: row for key, row in side.items() if key >= 50}
            held[name] |= dict(zip(range(60, 70), SIDES[name][:10] + 0.1, strict=True))
    with store.open(BY_ID, ef_search=200) as index:
        check_answers(index, BY_ID, held, Y[:9])


def open_finished(store, correction=CALIBRATED, **options):
    with store.open(correction, create=True, **options) as index:
        index.write_all(numbered(40))
    return store.open(correction)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.write(X[:3], "image", upsert=True), "replaced by id, and the rows of image"),
        (lambda i: i.write(X[:3], "image", ids=[1, 50, 51]), "1 of these ids of image already, 1 "),
        (lambda i: i.write(X[:2], "image", ids=["a", "b"]), "whole numbers, got text for image"),
        (lambda i: i.write(X[:2], "sound"), "modality must be one of"),
        (lambda i: i.delete([1], "sound"), "modality must be one of"),
        (lambda i: i.delete(["1"], "image"), "whole numbers, got text for image"),
        (lambda i: i.delete([1.5], "image"), "all be whole numbers or all be text"),
        (lambda i: i.delete([1, "a"], "image"), "all be whole numbers or all be text, got both"),
        (lambda i: i.delete(1, "image"), "one entry per row of image"),
        (lambda i: i.delete([1, 1], "image"), "1 comes more than once"),
        (
            lambda i: i.write_all(
                {
                    "image": Embeddings.from_array(X[:2], ids=[90, 91]),
                    "text": Embeddings.from_array(Y[:2], ids=[90, 5]),
                }
            ),
            "1 of these ids of text already, 5 ",
        ),
    ],
)
@IN_MEMORY
def test_a_change_that_cannot_be_made_changes_nothing(store, change, message):
    with open_finished(store) as index:
        before = index.search(Y[:5], "text", 100).ids.tolist()
        with pytest.raises((InputValueError, InputTypeError), match=message):
            change(index)
        assert index.delete([], "image") == index.delete([77], "image") == 0
    with store.open(CALIBRATED) as index:
        assert index.search(Y[:5], "text", 100).ids.tolist() == before
        assert index.changed_share() == {"image": 0, "text": 0}


CHANGES = {
    "add": ("_add", "index.write(X[60:85], 'image')", [*range(40, 65)]),
    "replace": ("_add", "index.write(X[60:85], 'image', range(30, 55), upsert=True)",
                [*range(30, 55)]),
    "delete": ("_remove", "index.delete(range(20), 'image')", [*range(20)]),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("kind", STORES)
def test_a_change_that_was_killed_is_finished_by_making_it_again(kind, what, tmp_path):
    step, change, ids = CHANGES[what]
    store = make_store(kind, tmp_path)
    CALIBRATED.save(tmp_path / "c.safetensors")
    np.savez(tmp_path / "rows.npz", image=X, text=Y)
    opened = f"*sys.argv[1:3], batch_rows=10, **{store.options!r}"
    code = (
        "import os, sys\nimport numpy as np\nfrom modgap.index import open_index\n"
        "X, Y = (np.load(sys.argv[3])[name] for name in ('image', 'text'))\n"
        f"with open_index({opened}, create=True) as index:\n"
        "    index.write_all({'image': X[:40], 'text': Y[:40]})\n"
        f"index = open_index({opened})\n"
        f"step = index.{step}\n"
        "def killed(*given, **named):\n"
        "    step(*given, **named)\n"
        "    os.kill(os.getpid(), 9)\n"
        f"index.{step} = killed\n{change}"
    )
    places = [store.address, str(tmp_path / "c.safetensors"), str(tmp_path / "rows.npz")]
    assert exit_status(code, *places) == -9
    held = {name: dict(enumerate(side[:40])) for name, side in SIDES.items()}

    def made(n):
        if what == "delete":
            return {key: row for key, row in held["image"].items() if key not in ids[:n]}
        return held["image"] | dict(zip(ids[:n], X[60 : 60 + n], strict=True))

    with store.open(CALIBRATED) as index:  # which only searches
        n = 0 if kind == "faiss" else 10
        check_answers(index, CALIBRATED, {**held, "image": made(n)}, Y[:4])
    with store.open(CALIBRATED) as index:  # and another change in between
        index.delete([39], "text")
        del held["text"][39]
    with store.open(CALIBRATED) as index:
        exec(change, {"index": index, "X": X})
        check_answers(index, CALIBRATED, {**held, "image": made(len(ids))}, Y[:4])
    with store.open(CALIBRATED) as index:  # counted once, although it was begun twice
        assert index.changed_share()["image"] == len(ids) / max(40, index.count("image"))
        index.write(X[90:92], "image")
        assert index.count("image") == len(made(len(ids))) + 2


def test_a_faiss_index_is_whole_wherever_its_writing_was_killed(tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    store = make_store("faiss", tmp_path)
    open_finished(store)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 2
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(PowerCut("after the vectors"))
    )
    with contextlib.suppress(PowerCut), store.open(CALIBRATED) as index:
        index.delete([7], "image")
    monkeypatch.undo()
    assert (tmp_path / "x.faiss").read_bytes() != before["x.faiss"]
    with store.open(CALIBRATED) as index:
        assert index.count("image") == 39
    (tmp_path / "x.faiss").write_bytes(before["x.faiss"])  # killed before the vectors
    with store.open(CALIBRATED) as index:
        assert index.count("image") == 40
        index.delete([8], "image")
    assert len([*tmp_path.iterdir()]) == 2
    with store.open(CALIBRATED) as index:
        assert index.count("image") == 39


@IN_MEMORY
def test_the_index_says_how_much_changed_and_what_to_do_about_it(store):
    with open_finished(store, BY_ID) as index:
        assert index.changed_share() == {"image": 0, "text": 0}
        assert len(index.holdings()) == 1
        index.write(X[50:60], "image", ids=range(50, 60))
        index.write(X[:5], "image", ids=range(5), upsert=True)
        index.delete([1, 2, 3, 90], "text")
    with store.open(BY_ID) as index:
        assert index.changed_share() == {"image": 15 / 50, "text": 3 / 40}
        said = "changed since the correction was fitted or the index built: 30% of image, 8% of"
        assert index.holdings()[1].startswith(said)
        assert len(index.holdings()) == 2
        index.delete(range(10, 35), "text")
        assert "modgap drift THEN image=image-now.npy" in index.holdings()[2]
        assert "modgap fit --refit CORRECTION image=image-now.npy" in index.holdings()[3]
    again = refit_background(BY_ID, {"text": Y[35:]})
    with store.open(again) as index:
        assert index.changed_share() == {"image": 15 / 50, "text": 0}
        index.delete([39], "text")
        assert index.changed_share() == {"image": 15 / 50, "text": 1 / 12}
    with store.open(again) as index:
        assert index.changed_share() == {"image": 15 / 50, "text": 1 / 12}


AUDIO = rows(n=60, seed=4)[0] + 1
EXTENSIONS = {"calibrated": CALIBRATED, "by id": BY_ID, "center": Center().fit(X, Y).correction_}


@pytest.mark.parametrize(
    ("store", "name"),
    [("memory", name) for name in EXTENSIONS] + [(kind, "by id") for kind in sorted(LIBRARIES)],
    indirect=["store"],
)
def test_one_more_modality_leaves_the_rows_that_are_there(store, name):
    before = EXTENSIONS[name]
    after = extend(before, {"audio": AUDIO})
    asked = [key for key in before.queries if key == "text"]
    open_finished(store, before).close()
    gc.collect()
    with store.open(after) as index:  # before there is anything of it
        found = by_document(index.search(Y[:4], *asked, 60))
        index.write(AUDIO[:30], "audio", ids=range(1000, 1030))
    with store.open(after) as index:
        assert index.names == ("image", "text", "audio")
        assert [index.count(one) for one in index.names] == [40, 40, 30]
        assert index.changed_share() == {"image": 0, "text": 0, "audio": 0}
        for only in NAMES:
            hits = by_document(index.search(Y[:4], *asked, 40, only))
            for line, known in zip(hits, found, strict=True):
                for key in line.keys() & known.keys():
                    assert line[key][0] == pytest.approx(known[key][0], abs=1e-5)
        held = {one: dict(enumerate(side[:40])) for one, side in SIDES.items()}
        held["audio"] = dict(zip(range(1000, 1030), AUDIO, strict=False))
        check_answers(index, after, held, Y[:4])
        index.write(AUDIO[30:31], "audio", ids=[7])
        index.delete([1000], "audio")
        assert index.count("audio") == 30
    gc.collect()
    with pytest.raises(InputValueError, match="was built with another correction: names"):
        store.open(before)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("faiss", {"factory": "HNSW8,Flat"}), ("faiss", {"factory": "IVF4,Flat"}),
     ("lance", {"ef_search": 64}), ("pgvector", {"ef_search": 64})],
)  # fmt: skip
def test_one_more_modality_gets_a_graph_of_its_own(tmp_path, kind, options):
    store, after = make_store(kind, tmp_path), extend(BY_ID, {"audio": AUDIO})
    open_finished(store, BY_ID, **options).close()
    with contextlib.suppress(PowerCut), store.open(after) as index:
        make_room = index._make_room

        def cut(new):
            make_room(new)
            raise PowerCut

        index._make_room = cut
        index.write(AUDIO, "audio", ids=range(60))
    gc.collect()
    with store.open(after) as index:
        index.write(AUDIO, "audio", ids=range(60))
    probed = {"nprobe": 4} if "IVF" in options.get("factory", "") else {}
    with store.open(after, **probed) as index:
        best = index.search(Y[:5], "text", 60, only="audio")
        assert all({*line} == {*range(60)} for line in best.ids.tolist())
        if isinstance(index, FaissIndex):
            kinds = {type(searched_index(one)) for one in index._indexes.values()}
            assert len(index._indexes) == 3
            assert len(kinds) == 1


def test_one_graph_of_equal_lengths_takes_no_further_modality(tmp_path):
    store = make_store("faiss", tmp_path)
    open_finished(store, factory="HNSW8,Flat", one_graph=True).close()
    index = store.open(extend(CALIBRATED, {"audio": AUDIO}))
    with pytest.raises(InputValueError, match="has one graph, in which documents of all"):
        index.write(AUDIO, "audio")
    index.close()
    with store.open(CALIBRATED) as index:
        assert index.count() == 80


@pytest.mark.parametrize("kind", ["faiss", "qdrant", "pgvector"])
def test_documents_come_and_go_by_commands(kind, tmp_path):
    store = make_store(kind, tmp_path)
    CALIBRATED.save(tmp_path / "c.safetensors")
    np.save(tmp_path / "image.npy", X[:40])
    np.save(tmp_path / "new.npy", X[40:50])
    (tmp_path / "ids.txt").write_text("".join(f"{key}\n" for key in range(35, 45)))
    place = (store.address, tmp_path / "c.safetensors", *store.words)
    new = f"image={tmp_path / 'new.npy'}"
    modgap("index", "build", *place, f"image={tmp_path / 'image.npy'}")
    said = modgap("index", "add", *place, new).stderr
    assert "stored 10 documents of image" in said
    assert "holds 50 documents" in said
    assert "20% of image" in said
    called = (new, "--ids", f"image={tmp_path / 'ids.txt'}")
    refused = modgap("index", "add", *place, *called, ok=False).stderr
    assert "replace the documents (upsert=True, --upsert)" in refused
    said = modgap("index", "add", *place, *called, "--upsert").stderr
    assert "holds 50 documents" in said
    with store.open(CALIBRATED) as index:
        held = dict(enumerate(X[:50])) | dict(zip(range(35, 45), X[40:50], strict=True))
        check_answers(index, CALIBRATED, {"image": held}, Y[:3])
    gc.collect()
    gone = (f"image=@{tmp_path / 'ids.txt'}", "image=35", "image=3", "image=99")
    said = modgap("index", "delete", *place, *gone).stderr
    assert "deleted 11 of 12 ids of image" in said
    assert "holds 39 documents" in said
    for wrong, message in (
        ("image=x", "are whole numbers, got 'x'"),
        ("image=07", "are whole numbers, got '07'"),
        ("sound=1", "modality must be one of"),
        ("3", "given as MODALITY=ID or MODALITY=@FILE"),
        ("image=@gone.txt", "gone.txt cannot be used"),
    ):
        refused = modgap("index", "delete", *place, "image=4", wrong, ok=False)
        assert refused.returncode == 2
        assert message in refused.stderr
    gc.collect()
    with store.open(CALIBRATED) as index:
        assert index.count() == 39
    gc.collect()
    BY_ID.save(tmp_path / "other.safetensors")
    other = ("index", "drop", store.address, tmp_path / "other.safetensors", *store.words)
    assert "another correction" in modgap(*other, ok=False).stderr
    assert "which held 39 documents" in modgap("index", "drop", *place).stderr
    assert "There is no index" in modgap("index", "drop", *place, ok=False).stderr
    assert not [*tmp_path.glob("x.faiss*")]
