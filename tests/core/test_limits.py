"""Files that claim more than they hold: one sentence, and no memory asked for what is not there."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from modgap import Correction
from modgap.core import limits
from modgap.core.checks import InputError
from modgap.core.limits import parse_json, read_json
from modgap.core.tensor_file import write_tensors
from modgap.corrections import Affine
from modgap.index.metadata import read_note
from modgap.io import open_embeddings, open_items
from modgap.io.group_labels import read_labels
from modgap.moments import Moments
from modgap.train.config_files import load_config

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
DEEP = b"[" * 200_000
# What a refusal may take: the largest crafted file has 8 MB, and Python's lists take more.
MOST_MEMORY = 64 * 1024**2


@pytest.fixture
def low_limit(monkeypatch):
    """2 MiB may be unpacked in place of 256, so that small files can claim too much."""
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 2 * 1024**2)


def refused(read):
    """The one sentence, once it is known that little memory was taken for it."""
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            read()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert pool.bytes_allocated() - before < MOST_MEMORY
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "allocate" not in sentence
    return sentence


def read_all(path):
    opened = open_embeddings(path)
    opened.rows()
    for kind in opened.columns:
        getattr(opened, kind)


def npy(descr, shape, data=b"\x00" * 64):
    file = io.BytesIO()
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}"
    text += " " * (64 - (len(text) + 11) % 64) + "\n"
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)
    return file.getvalue()


NPY = {
    "10**12 rows": npy("<f4", (10**12, 512)),
    "beyond 64 bits": npy("<f4", (2**70, 2**70)),
    "no rows of 2**70 columns": npy("<f4", (0, 2**70)),
    "negative": npy("<f4", (-5, -8)),
    "true": npy("<f4", (True, 2)),
    "strings of 400 MB": npy("<U100000000", (2,)),
    "strings without length": npy("<U0", (10**12,)),
    "structures": npy([("a", "<f4"), ("b", "<i8")], (4,)),
    "a structure of nothing": npy([], (10**12,)),
    "blocks inside": npy(("<f4", (10**9,)), (2,)),
    "objects": npy("|O", (4,)),
    "70 dimensions": npy("<f4", (1,) * 70),
    "deep": b"\x93NUMPY\x01\x00" + struct.pack("<H", 1_000) + b"(" * 1_000,
    "deep descr": npy([("a", "<f4")], f"({'-' * 1_000}1,)"),
    "a header of 4 GB": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b" " * 1_000,
    "no header": b"\x93NUMPY\x01\x00",
}


@pytest.mark.parametrize("case", NPY)
def test_npy_headers(tmp_path, case):
    (tmp_path / "a.npy").write_bytes(NPY[case])
    assert "a.npy" in refused(lambda: read_all(tmp_path / "a.npy"))
    assert "a.npy" in refused(lambda: Correction.load(tmp_path / "a.npy"))
    if "rows" not in case:
        assert "a.npy" in refused(lambda: read_labels(tmp_path / "a.npy"))


@pytest.mark.parametrize("case", NPY)
@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz_members(tmp_path, case, packing):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packing) as archive:
        archive.writestr("v.npy", NPY[case])
    assert "a.npz" in refused(lambda: read_all(tmp_path / "a.npz"))


def bomb(path, name, header, n_bytes, packing):
    """A member of zeros, packed as it is written."""
    block = bytes(1024**2)
    with zipfile.ZipFile(path, "w", packing) as archive, archive.open(name, "w") as file:
        file.write(header)
        for _ in range(n_bytes // len(block)):
            file.write(block)


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    """Zeros of 12 MB that take 12 kB, as rows, as labels and as a pickle."""
    folder, size = tmp_path_factory.mktemp("bombs"), 12 * 1024**2
    bomb(folder / "rows.npz", "v.npy", npy("<f4", (size // 512, 128), b""), size, 8)
    bomb(folder / "ids.npz", "id.npy", npy("<U1024", (size // 4096,), b""), size, 8)
    with zipfile.ZipFile(folder / "ids.npz", "a") as archive:
        archive.writestr("v.npy", npy("<f4", X.shape, X.tobytes()))
    bomb(folder / "a.pt", "archive/data.pkl", b"\x80\x02", size, 8)
    return folder


@pytest.mark.parametrize("name", ["rows.npz", "ids.npz", "a.pt"])
@pytest.mark.usefixtures("low_limit")
def test_bombs_in_zip_members(bombs, name):
    assert "made to fill the memory" in refused(lambda: read_all(bombs / name))


def test_a_member_that_unpacks_to_less_or_more_than_the_archive_says(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", v=X)
    data = (tmp_path / "a.npz").read_bytes()
    size = struct.pack("<I", 128 + X.nbytes)
    assert size in data
    (tmp_path / "b.npz").write_bytes(data.replace(size, struct.pack("<I", 200)))
    assert "b.npz" in refused(lambda: read_all(tmp_path / "b.npz"))
    # More than it needs is not asked for.
    (tmp_path / "b.npz").write_bytes(data.replace(size, struct.pack("<I", 10**9)))
    np.testing.assert_array_equal(open_embeddings(tmp_path / "b.npz").rows(), X)


def test_what_compresses_well_is_read(tmp_path):
    wide = np.array(["a", "b" * 2_000] * 500)
    np.savez_compressed(tmp_path / "a.npz", v=np.zeros((1_000, 2), np.float32), ids=wide)
    assert open_embeddings(tmp_path / "a.npz").ids.tolist() == wide.tolist()


def safetensors_of(header, data=b"\x00" * 64):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape, offsets, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


SAFETENSORS = {
    "10**12 rows": safetensors_of({"v": entry([10**12, 4], [0, 64])}),
    "beyond the file": safetensors_of({"v": entry([4, 400], [0, 6400])}),
    "negative": safetensors_of({"v": entry([-4, -4], [0, 64])}),
    "backwards": safetensors_of({"v": entry([0, 4], [64, 0])}),
    "floats": safetensors_of({"v": entry([4.0, 4], [0, 64])}),
    "true": safetensors_of({"v": entry([True, 16], [0, 64])}),
    "overlap": safetensors_of({"v": entry([4, 4], [0, 64]), "w": entry([2, 4], [32, 64])}),
    "no rows of 2**70": safetensors_of({"v": entry([0, 2**70], [0, 0])}),
    "dtype is a list": safetensors_of({"v": entry([4, 4], [0, 64], ["F32"])}),
    "entry is a number": safetensors_of({"v": 3}),
    "offsets missing": safetensors_of({"v": {"dtype": "F32", "shape": [4, 4]}}),
    "three offsets": safetensors_of({"v": entry([4, 4], [0, 64, 64])}),
    "deep": safetensors_of(DEEP),
    "not UTF-8": safetensors_of(b'{"\xff\xfe": 1}'),
    "a list": safetensors_of([1, 2]),
    "metadata of numbers": safetensors_of({"__metadata__": {"a": 1}, "v": entry([4, 4], [0, 64])}),
    "a header of 2**60": struct.pack("<Q", 2**60) + b"{}" * 10,
    "a header of 20 MB": safetensors_of(b" " * 20_000_000, b""),
    "seven bytes": b"\x01" * 7,
}


@pytest.mark.parametrize("case", SAFETENSORS)
def test_safetensors_headers(tmp_path, case):
    path = tmp_path / "a.safetensors"
    path.write_bytes(SAFETENSORS[case])
    assert "a.safetensors" in refused(lambda: read_all(path))
    assert "a.safetensors" in refused(lambda: Correction.load(path))


def test_expanded_tensors(tmp_path):
    one = torch.zeros(1)
    for number, tensor in enumerate(
        (
            one.expand(10**9, 512),
            one.bfloat16().expand(2**40, 8),
            one.as_strided((2**20, 512), (0, 0)),
        )
    ):
        path = tmp_path / f"{number}.pt"
        torch.save(tensor, path)
        assert "expanded tensor" in refused(lambda path=path: read_all(path))
        torch.save(tensor, path, _use_new_zipfile_serialization=False)
        assert "expanded tensor" in refused(lambda path=path: read_all(path))
    torch.save({"v": torch.from_numpy(X), "labels": one.expand(2**40)}, tmp_path / "c.pt")
    assert "'labels' of" in refused(lambda: read_all(tmp_path / "c.pt"))
    torch.save(torch.ones(1).expand(40, 8), tmp_path / "small.pt")
    assert open_embeddings(tmp_path / "small.pt").rows().sum() == 320


def test_a_pickle_that_only_asks_for_memory(tmp_path):
    pickled = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x40\x85R."
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", b"3\n")
    assert "got a bytearray" in refused(lambda: read_all(tmp_path / "a.pt"))


def test_text_and_numbers_in_torch_files(tmp_path):
    torch.save({"v": torch.from_numpy(X), "ids": ["\ud800"] * 50}, tmp_path / "a.pt")
    assert "must hold text" in refused(lambda: read_all(tmp_path / "a.pt"))
    torch.save({"v": torch.from_numpy(X), "ids": [2**70] * 50}, tmp_path / "a.pt")
    assert open_embeddings(tmp_path / "a.pt").ids[0] == 2**70


@pytest.mark.usefixtures("low_limit")
def test_parquet_that_unpacks_to_far_more_than_it_has(tmp_path):
    n = 3_000_000
    zeros = pa.array(np.broadcast_to(np.float32(0), n))
    one_row = pa.ListArray.from_arrays([0, n], zeros)
    pq.write_table(pa.table({"v": one_row}), tmp_path / "row.parquet")
    fixed = pa.FixedSizeListArray.from_arrays(zeros, 1_000)
    pq.write_table(pa.table({"v": fixed}), tmp_path / "fixed.parquet")
    del zeros, one_row, fixed
    for name in ("row.parquet", "fixed.parquet"):
        assert (tmp_path / name).stat().st_size < 100_000
        assert "made to fill the memory" in refused(lambda name=name: read_all(tmp_path / name))


@pytest.mark.usefixtures("low_limit")
def test_one_long_caption_of_many_images(tmp_path):
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(500, np.int32)), ["a" * 50_000])
    table = pa.table({"image": [b"x"] * 500, "caption": same, "name": list(map(str, range(500)))})
    pq.write_table(table, tmp_path / "a.parquet", store_schema=False)
    said = refused(lambda: open_items(tmp_path / "a.parquet"))
    assert "'caption' of" in said


@pytest.mark.usefixtures("low_limit")
def test_one_long_value_of_many_rows_in_parquet(tmp_path):
    n = 500
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["a" * 50_000])
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(n, np.float32)), 1)
    for name, column in (("coded.parquet", values), ("plain.parquet", values)):
        table = pa.table({"v": rows, "id": column})
        pq.write_table(table, tmp_path / name, store_schema=name == "coded.parquet")
        said = refused(lambda name=name: read_all(tmp_path / name))
        assert "'id' of" in said


def test_parquet_of_ragged_lists_and_undecodable_text(tmp_path):
    pq.write_table(pa.table({"v": [[1.0, 2.0], [1.0]]}), tmp_path / "a.parquet")
    assert "row 1 has 1" in refused(lambda: read_all(tmp_path / "a.parquet"))
    bad = pa.array([b"\xff\xfe"] * 50).view(pa.string())
    pq.write_table(pa.table({"v": list(X), "id": bad}), tmp_path / "b.parquet")
    assert "b.parquet" in refused(lambda: read_all(tmp_path / "b.parquet"))


LABELS = {
    "bytes": ("g.npy", npy("|S4", (2,), b"\xff\xfe\x00\x00ab\x00\x00")),
    "no characters": ("g.npy", npy("<U1", (2,), struct.pack("<2I", 0x110000, 65))),
    "half a character": ("g.npy", npy("<U1", (2,), struct.pack("<2I", 0xD800, 65))),
    "text": ("g.txt", b"a\n\xff\xfe\n"),
    "table": ("g.csv", b"group\n\xff\xfe\n"),
    "a long field": ("g.csv", b"group\n" + b"a" * 200_000 + b"\n"),
    "one long label": ("g.txt", b"a" * 100_000 + b"\nb" * 100_000),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels(tmp_path, case):
    name, data = LABELS[case]
    (tmp_path / name).write_bytes(data)
    assert name in refused(lambda: read_labels(tmp_path / name))


def test_labels_in_npz_that_are_no_text(tmp_path):
    np.savez(tmp_path / "a.npz", v=X, group=np.array([b"\xff\xfe"] * 50))
    assert "'group' of" in refused(lambda: read_all(tmp_path / "a.npz"))


def test_numbers_beyond_64_bits_are_labels_as_text(tmp_path):
    for name, text in (("g.txt", f"{2**70}\n7\n"), ("g.csv", f"group\n{2**70}\n7\n")):
        (tmp_path / name).write_text(text)
        assert read_labels(tmp_path / name).tolist() == [str(2**70), "7"]


def saved_with(path, change):
    """A correction whose header says something else."""
    Correction.identity(4).save(path)
    header = json.loads(safetensors.safe_open(path, "numpy").metadata()["modgap"])
    change(header)
    said = {k: v for k, v in header.items() if k not in ("kind", "format", "version")}
    write_tensors(path, "correction", {}, said)
    return path


def set_in_maps(key, value):
    return lambda header: [one.update({key: value}) for one in header["maps"]]


HEADERS = {
    **{f"dim_in {value!r}": set_in_maps("dim_in", value)
       for value in (float("inf"), float("nan"), 4.5, True, -4, 0, 10**12, 2**70, "4", None)},
    "many blocks": set_in_maps("blocks", [1] * 100_000),
    "blocks of text": set_in_maps("blocks", "1" * 100),
    "many maps": lambda header: header.update(maps=header["maps"] + [{}] * 100_000),
    "many names": lambda header: header.update(names=["a"] * 100_000),
    "scale beyond": set_in_maps("scale", 10**400),
    "rows beyond": lambda header: header.update(fitted={"image": float("inf")}),
    "about a list": lambda header: header.update(about=[1]),
    "maps a number": lambda header: header.update(maps=3),
    "hubs beyond": lambda header: header.update(
        hubs={"weight": 0.5, "neighbours": float("inf"), "tensors": [], "keyed_by": None}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERS)
def test_headers_of_corrections(tmp_path, case):
    path = saved_with(tmp_path / "c.safetensors", HEADERS[case])
    assert "c.safetensors" in refused(lambda: Correction.load(path))


def test_corrections_that_are_as_they_should_be_are_read(tmp_path):
    maps = {(name, "document"): Affine(4, blocks=(1.0, 0.5)) for name in ("image", "text")}
    Correction(("image", "text"), maps).save(tmp_path / "c.safetensors")
    assert Correction.load(tmp_path / "c.safetensors").dim_out == 8


def test_moments_without_their_numbers(tmp_path):
    for tensors in ({}, {"x.n": np.array([5, 5])}, {"x.n": np.array(0), "x.given.mean": X[0]}):
        write_tensors(tmp_path / "m.safetensors", "set of moments", tensors, {})
        refused(lambda: Moments.load(tmp_path / "m.safetensors"))


def test_deep_json_and_toml_wherever_they_are_read(tmp_path):
    (tmp_path / "captions_a.json").write_bytes(DEEP)
    refused(lambda: open_items(tmp_path / "captions_a.json"))
    refused(lambda: read_json(tmp_path / "captions_a.json", "a list"))
    refused(lambda: load_config(tmp_path / "captions_a.json"))
    (tmp_path / "a.toml").write_bytes(b"a = " + DEEP)
    refused(lambda: load_config(tmp_path / "a.toml"))
    refused(lambda: parse_json("1" * 10_000, "A number"))
    (tmp_path / "long.json").write_bytes(b" " * 2_000)
    assert "too much for a list" in refused(lambda: read_json(tmp_path / "long.json", "a list", 99))
    assert read_note(DEEP) == {}


COCO = {
    "id is a list": {"images": [{"file_name": "a.jpg", "id": [1]}], "annotations": []},
    "image_id is a list": {
        "images": [{"file_name": "a.jpg", "id": 1}],
        "annotations": [{"image_id": [1], "caption": "a"}],
    },
    "sentences is a number": {"images": [{"file_name": "a.jpg", "sentences": 5}]},
    "split is a list": {"images": [{"file_name": "a.jpg", "sentences": ["a"], "split": [1]}]},
    "a name with a zero byte": {"images": [{"file_name": "a\x00.jpg", "sentences": ["a"]}]},
    "annotations is a number": {"images": [{"file_name": "a.jpg", "id": 1}], "annotations": 5},
}


@pytest.mark.parametrize("case", COCO)
def test_captions_of_other_types(tmp_path, case):
    (tmp_path / "captions_a.json").write_text(json.dumps(COCO[case]))
    refused(lambda: open_items(tmp_path / "captions_a.json").captioned_images())


def test_a_tar_member_that_claims_more_than_the_shard_has(tmp_path):
    for size in (10**10, -512):
        info = tarfile.TarInfo("1.jpg")
        info.size = size
        with (tmp_path / "a.tar").open("wb") as file:
            file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(2_048))
        assert "a.tar" in refused(lambda: open_items(tmp_path / "a.tar"))
