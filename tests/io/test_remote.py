"""Rows at URLs: memory, a real web server, a real S3 API; by ranges, and safe from changes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from command_line import make_files, modgap
from modgap.core.checks import InputValueError, MissingExtraError
from modgap.core.steady_file import ChangedFileError
from modgap.io import (
    BadShardsWarning,
    Manifest,
    open_embeddings,
    open_modalities,
    open_pair,
    remote,
    write_clip_retrieval,
    write_manifest,
)
from web_files import web_files

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

DIM = 8
X = np.random.default_rng(2).normal(size=(600, DIM)).astype(np.float32)


def parquet_bytes(rows):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIM)
    held = io.BytesIO()
    pq.write_table(pa.table({"v": lists, "id": range(len(rows))}), held, row_group_size=200)
    return held.getvalue()


def numpy_bytes(save, *arrays, **named):
    held = io.BytesIO()
    save(held, *arrays, **named)
    return held.getvalue()


FILES = {
    "a.npy": numpy_bytes(np.save, X),
    "fortran.npy": numpy_bytes(np.save, np.asfortranarray(X)),
    "a.npz": numpy_bytes(np.savez, v=X),
    "packed.npz": numpy_bytes(np.savez_compressed, v=X),
    "a.safetensors": safetensors.numpy.save({"v": X}),
    "a.parquet": parquet_bytes(X),
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0))


@pytest.fixture
def memory():
    """A store in this process, empty before and after."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture
def web(tmp_path):
    """A web server of tmp_path/site."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    (tmp_path / "site").mkdir()
    with web_files(tmp_path / "site") as files:
        yield files


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_by_ranges(memory, name):
    memory.pipe_file(f"/{name}", FILES[name])
    opened = open_embeddings(f"memory://{name}")
    np.testing.assert_array_equal(opened.rows(), X)
    np.testing.assert_array_equal(np.concatenate(list(opened.batches(70))), X)
    np.testing.assert_array_equal(opened.take([599, 3, 3, 0]), X[[599, 3, 3, 0]])
    assert open_embeddings(Path(f"memory://{name}")).shape == X.shape  # one slash is lost
    assert opened.source == f"memory://{name}"


def test_a_file_url_is_a_path(tmp_path):
    np.save(tmp_path / "a.npy", X)
    opened = open_embeddings(f"file://{tmp_path}/a.npy")
    np.testing.assert_array_equal(opened.rows(), X)
    assert opened.source == str(tmp_path / "a.npy")


@pytest.mark.parametrize("name", FILES)
def test_an_object_that_changes_or_vanishes_is_one_sentence(memory, name):
    memory.pipe_file(f"/{name}", FILES[name])
    opened = open_embeddings(f"memory://{name}")
    memory.pipe_file(f"/{name}", FILES[name])
    for read in (lambda: list(opened.batches()), opened.rows, lambda: opened.take([5])):
        with pytest.raises(ChangedFileError, match=f"memory://{name} changed .* written to"):
            read()
    memory.pipe_file(f"/{name}", FILES[name][:100])
    with pytest.raises(ChangedFileError, match=f"memory://{name} changed .* has 100 now"):
        opened.rows()
    memory.rm_file(f"/{name}")
    with pytest.raises(ChangedFileError, match=f"memory://{name} was removed"):
        opened.rows()


def test_folders_of_every_layout_are_listed_and_read(memory):
    for number in range(3):
        rows = X[200 * number : 200 * number + 200]
        half = {"l14_img": rows.astype(np.float16), "l14_txt": -rows.astype(np.float16)}
        memory.pipe_file(f"/dc/{number:08}.npz", numpy_bytes(np.savez_compressed, **half))
        table = io.BytesIO()
        pq.write_table(pa.table({"uid": [f"{number}-{row}" for row in range(200)]}), table)
        memory.pipe_file(f"/dc/{number:08}.parquet", table.getvalue())
        memory.pipe_file(f"/pq/part-{number}.parquet", parquet_bytes(rows))
        for side, sign in {"img_emb": 1, "text_emb": -1}.items():
            one = numpy_bytes(np.save, sign * rows)
            memory.pipe_file(f"/clip/{side}/{side}_{number}.npy", one)
    data = open_pair("memory://dc")
    np.testing.assert_array_equal(data.X, X.astype(np.float16))
    assert data.x.ids[599] == "2-199"
    clip = open_pair("memory://clip")
    np.testing.assert_array_equal(clip.Y, -X)
    np.testing.assert_array_equal(clip.x.take([7, 599]), X[[7, 599]])
    table = open_embeddings("memory://pq")
    np.testing.assert_array_equal(table.rows(), X)
    assert len(table.matrix.shards()) == 3
    both = {"image": "memory://clip/img_emb", "text": "memory://clip/text_emb"}
    assert open_modalities(both).sides["text"].shape == X.shape
    memory.pipe_file("/clip/text_emb/text_emb_1.npy", b"no")
    with pytest.warns(BadShardsWarning, match="1 of 3 shards of memory://clip .*200 rows"):
        assert open_pair("memory://clip", bad_shards="skip").x.n_rows == 400


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memory://no.npy", "There is no file or folder 'memory://no.npy'"),
        ("memory://no", "There is no file or folder 'memory://no'"),
        ("memory://a.pt", "torch file, which is read from a disk only"),
        ("memory://empty.npy", "is empty"),
        ("memory://a.csv", "must end in .npy"),
        ("memory://saved", "save_to_disk, which is read from a disk only"),
        ("nobody://a.npy", "nobody://a.npy cannot be read: Protocol not known: nobody"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(memory, url, said):
    memory.pipe_file("/empty.npy", b"")
    memory.pipe_file("/a.csv", b"1")
    memory.pipe_file("/saved/state.json", b"{}")
    with pytest.raises(InputValueError, match=said):
        open_embeddings(url)


def test_a_store_that_needs_a_library_names_it(monkeypatch):
    def none(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", none)
    with pytest.raises(MissingExtraError, match="Install s3fs to access S3"):
        open_embeddings("s3://bucket/a.npy")


def test_a_web_server_is_asked_for_ranges_of_what_was_named(web):
    (web.folder / "a.npy").write_bytes(FILES["a.npy"])
    opened = open_embeddings(f"{web.url}/a.npy?sig=sesame")
    np.testing.assert_array_equal(opened.take([599, 3]), X[[599, 3]])
    np.testing.assert_array_equal(opened.rows(), X)
    assert {asked.split()[1] for asked in web.asked} == {"/a.npy"}
    assert "sesame" not in opened.source
    (web.folder / "a.npy").write_bytes(FILES["a.npy"][:500])
    with pytest.raises(ChangedFileError, match=r"a\.npy\?sig=… changed .* has 500 now"):
        opened.rows()


def test_a_connection_that_fails_is_tried_again_and_then_said(web):
    (web.folder / "a.npy").write_bytes(FILES["a.npy"])
    opened = open_embeddings(f"{web.url}/a.npy")
    web.failures = 2
    np.testing.assert_array_equal(opened.rows(), X)
    web.failures = 1_000
    with pytest.raises(InputValueError, match=r"/a\.npy cannot be read: .* \(3 attempts\)"):
        opened.take([1])
    ran = modgap("measure", f"{web.url.replace('http://', 'http://me:sesame@')}/a.npy")
    assert ran.status == 2
    assert "cannot be read" in ran.err
    assert "sesame" not in ran.err


def test_a_server_without_ranges_is_refused(web):
    (web.folder / "a.npy").write_bytes(FILES["a.npy"])
    web.ranges = False
    with pytest.raises(InputValueError, match=r"its server sends no ranges\. Download it first"):
        open_embeddings(f"{web.url}/a.npy").rows()


def test_a_folder_of_a_web_server_is_read_by_its_manifest(web, tmp_path):
    A, B = make_files(tmp_path, 240)
    folder = web.folder / "clip"
    write_clip_retrieval(folder, A, B, ids=[str(i) for i in range(len(A))], shard_rows=100)
    with pytest.raises(InputValueError, match=r"folder with a manifest\.json of its shards"):
        open_pair(f"{web.url}/clip")
    write_manifest(str(folder), folder / "manifest.json")
    for url in (f"{web.url}/clip", f"{web.url}/clip/", f"{web.url}/clip/manifest.json"):
        data = open_pair(url)
        np.testing.assert_array_equal(data.Y, B)
        assert data.pairing == "row by row, the ids agree"
    Manifest.load(f"{web.url}/clip/manifest.json").check(f"{web.url}/clip")
    ran = modgap("fix", f"{web.url}/clip", "-o", tmp_path / "out", "--json")
    assert ran.status == 0, ran.err
    assert (tmp_path / "out" / "search.py").is_file()
    assert not [one for one in web.asked if not one.split()[1].startswith("/clip")]
    (folder / "text_emb" / "text_emb_1.npy").write_bytes(b"no")
    with pytest.raises(InputValueError, match=r"text_emb_1\.npy has 2 bytes, and .* by its man"):
        open_pair(f"{web.url}/clip")
    with pytest.warns(BadShardsWarning, match="1 of 3 shards of .*100 rows are missing"):
        assert open_pair(f"{web.url}/clip", bad_shards="skip").x.n_rows == len(A) - 100


@pytest.mark.parametrize("name", ["../a.npy", "/etc/a.npy", "http://b/a.npy", "a.npy?x", ""])
def test_a_manifest_names_nothing_outside_its_folder(web, name):
    shard = {"path": name, "rows": 1, "columns": 1, "dtype": "f", "bytes": 1, "checksum": ""}
    held = {"schema": "modgap/manifest/1", "shards": [shard]}
    (web.folder / "manifest.json").write_text(json.dumps(held))
    with pytest.raises(InputValueError, match="must name files that lie in its folder"):
        open_embeddings(f"{web.url}/manifest.json")
    assert {asked.split()[1] for asked in web.asked} == {"/manifest.json"}


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a real S3 API on this machine."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    s3 = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    s3.start()
    host, port = s3.get_host_and_port()
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "sesame",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }.items():
            patched.setenv(name, value)
        system = fsspec.filesystem("s3")
        system.mkdir("embeddings")
        yield system
    s3.stop()


def test_datacomp_in_a_bucket_is_measured(bucket, tmp_path):
    A, B = make_files(tmp_path)
    for number in range(4):
        rows = slice(110 * number, 110 * number + 110)
        held = numpy_bytes(np.savez, l14_img=A[rows], l14_txt=B[rows])
        bucket.pipe_file(f"embeddings/dc/{number:08}.npz", held)
    ran = modgap("measure", "s3://embeddings/dc", "--json")
    assert ran.status == 0, ran.err
    local = modgap("measure", tmp_path / "image.npy", tmp_path / "text.npy", "--json")
    assert ran.json["gap_distance"] == local.json["gap_distance"]
    assert "sesame" not in ran.out + ran.err
    data = open_pair("s3://embeddings/dc")
    held = numpy_bytes(np.savez, l14_img=-A[330:], l14_txt=-B[330:])
    bucket.pipe_file("embeddings/dc/00000003.npz", held)
    with pytest.raises(ChangedFileError, match=r"00000003\.npz changed while it was read"):
        data.x.rows()
    bucket.rm_file("embeddings/dc/00000001.npz")
    with pytest.raises(ChangedFileError, match=r"00000001\.npz was removed"):
        data.y.take([150])
    ran = modgap("measure", "s3://nobodys-bucket/rows")
    assert ran.status == 2
    assert "s3://nobodys-bucket/rows" in ran.err
