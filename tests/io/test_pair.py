"""Two modalities from one path or two, and which of their rows match."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from modgap.core.checks import InputTypeError, InputValueError
from modgap.io import open_pair

torch = pytest.importorskip("torch")

N, M, D = 12, 20, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
Y = RNG.normal(size=(N, D)).astype(np.float32)
LONG = RNG.normal(size=(M, D)).astype(np.float32)  # more texts than images
GX, GY = np.arange(N), np.arange(M) % N


def assert_holds(pair, x=X, y=Y):
    np.testing.assert_array_equal(pair.x.rows(), x)
    np.testing.assert_array_equal(pair.y.rows(), y)


def assert_groups(pair, gx=GX, gy=GY):
    assert pair.group_codes is not None
    assert pair.paired
    matching = np.equal.outer(*pair.groups)
    np.testing.assert_array_equal(matching, np.equal.outer(np.asarray(gx), np.asarray(gy)))


@pytest.mark.parametrize(
    "names",
    [
        ("image", "text"),
        ("img", "txt"),
        ("x", "y"),
        ("image_features", "text_features"),
        ("image_embeddings", "text_embeddings"),
        ("image_embeds", "text_embeds"),
        ("img_emb", "text_emb"),
    ],
)
def test_common_names_say_which_matrix_is_which(tmp_path, names):
    # Written in the wrong order, so that only the names can tell.
    arrays = {names[1]: Y, names[0]: X, "third": X}
    np.savez(tmp_path / "a.npz", **arrays)
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors")
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, tmp_path / "a.pt")
    pq.write_table(
        pa.table({name: list(array) for name, array in arrays.items()}), tmp_path / "a.parquet"
    )
    for name in ("a.npz", "a.safetensors", "a.pt", "a.parquet"):
        pair = open_pair(tmp_path / name)
        assert_holds(pair)
        assert pair.paired
        assert pair.group_codes is None


def test_stacked_arrays_and_tuples_of_tensors_are_pairs(tmp_path):
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    np.save(tmp_path / "a.npy", np.stack([X, Y]))
    torch.save(torch.stack([x, y]), tmp_path / "stack.pt")
    torch.save(torch.stack([x, y]).bfloat16(), tmp_path / "bfloat16.pt")
    torch.save((x, y), tmp_path / "tuple.pt")
    torch.save([x, y], tmp_path / "list.pth")
    for name in ("a.npy", "stack.pt", "tuple.pt", "list.pth"):
        assert_holds(open_pair(tmp_path / name))
    half = torch.stack([x, y]).bfloat16().float().numpy()
    assert_holds(open_pair(tmp_path / "bfloat16.pt"), half[0], half[1])


def test_the_names_of_the_modalities_are_tried_first(tmp_path):
    np.savez(tmp_path / "a.npz", text=Y, audio=X, image=LONG)
    pair = open_pair(tmp_path / "a.npz", names=("audio", "text"))
    assert_holds(pair)
    assert pair.names == ("audio", "text")


def test_columns_can_be_chosen(tmp_path):
    np.savez(tmp_path / "a.npz", first=Y, second=X)
    assert_holds(open_pair(tmp_path / "a.npz", x_column="second", y_column="first"))
    assert_holds(open_pair(tmp_path / "a.npz", x_column="second"))
    assert_holds(open_pair(tmp_path / "a.npz", y_column="first"))


def test_two_files_may_be_of_two_formats(tmp_path):
    np.save(tmp_path / "x.npy", X)
    pd.DataFrame({"id": range(N), "v": list(Y), "other": list(X)}).to_parquet(
        tmp_path / "y.parquet"
    )
    pair = open_pair(tmp_path / "x.npy", tmp_path / "y.parquet", y_column="v")
    assert_holds(pair)
    assert list(pair.y.ids) == list(range(N))
    sizes = [(len(x), len(y)) for x, y in zip(pair.x.batches(5), pair.y.batches(5), strict=True)]
    assert sizes == [(5, 5), (5, 5), (2, 2)]


def test_each_of_two_files_gives_the_matrix_that_is_called_like_its_modality(tmp_path):
    np.savez(tmp_path / "both.npz", image=X, text=Y)
    assert_holds(open_pair(tmp_path / "both.npz", tmp_path / "both.npz"))
    np.save(tmp_path / "y.npy", Y)
    assert_holds(open_pair(tmp_path / "both.npz", tmp_path / "y.npy"))


def test_different_counts_without_groups_are_no_pairs(tmp_path):
    np.savez(tmp_path / "a.npz", image=X, text=LONG)
    pair = open_pair(tmp_path / "a.npz")
    assert not pair.paired
    assert pair.group_codes is None


def test_equal_counts_can_be_declared_no_pairs(tmp_path):
    np.savez(tmp_path / "a.npz", image=X, text=Y, groups=GX)
    assert_groups(open_pair(tmp_path / "a.npz"), GX, GX)
    pair = open_pair(tmp_path / "a.npz", paired=False)
    assert not pair.paired
    assert pair.group_codes is None
    with pytest.raises(InputValueError, match="cannot be unpaired as well"):
        open_pair(tmp_path / "a.npz", groups="groups", paired=False)


@pytest.mark.parametrize(
    "names", [("x_groups", "y_groups"), ("image_groups", "text_groups"), ("image_group", "y_group")]
)
def test_each_side_of_one_file_has_its_groups(tmp_path, names):
    groups = {names[0]: GX, names[1]: GY}
    np.savez(tmp_path / "a.npz", image=X, text=LONG, captions=[f"{i}" for i in range(M)], **groups)
    pair = open_pair(tmp_path / "a.npz")
    assert_groups(pair)
    assert pair.x.captions is None  # there are as many as texts
    assert list(pair.y.captions) == [f"{i}" for i in range(M)]


def test_both_sides_of_a_parquet_file_share_its_group_column(tmp_path):
    frame = pd.DataFrame({"image": list(X), "text": list(Y), "product": [f"p{i // 2}" for i in GX]})
    frame.to_parquet(tmp_path / "a.parquet")
    assert open_pair(tmp_path / "a.parquet").group_codes is None
    assert_groups(open_pair(tmp_path / "a.parquet", groups="product"), *[frame["product"]] * 2)


@pytest.fixture
def two_files(tmp_path):
    x, y = tmp_path / "x.parquet", tmp_path / "y.npz"
    pd.DataFrame({"v": list(X), "product": GX, "name": [f"n{g}" for g in GX]}).to_parquet(x)
    np.savez(y, v=LONG, product=GY, title=[f"n{g}" for g in GY])
    return x, y


def test_groups_may_be_a_column_of_both_files(two_files):
    assert_groups(open_pair(*two_files, groups="product"))
    names = [[f"n{g}" for g in side] for side in (GX, GY)]
    assert_groups(open_pair(*two_files, groups=("name", "title")), *names)
    assert_groups(open_pair(*two_files, groups="name,title"), *names)


def write_labels(path, labels):
    match path.suffix:
        case ".npy":
            np.save(path, labels)
        case ".txt":
            path.write_text("\n".join(map(str, labels)) + "\n")
        case ".csv":
            pd.DataFrame({"group": labels, "n": 1}).to_csv(path)
        case ".parquet":
            pd.DataFrame({"any": labels}).to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv", ".parquet"])
@pytest.mark.parametrize("kind", [int, str])
def test_groups_may_be_files(tmp_path, two_files, suffix, kind):
    labels = [[kind(g) if kind is int else f"{g:03}" for g in side] for side in (GX, GY)]
    gx = write_labels(tmp_path / f"gx{suffix}", labels[0])
    gy = write_labels(tmp_path / f"gy{suffix}", labels[1])
    assert_groups(open_pair(*two_files, groups=(gx, gy)), *labels)
    assert_groups(open_pair(*two_files, groups=f"{gx},{gy}"), *labels)


def test_a_number_and_its_digits_are_the_same_label(tmp_path):
    np.savez(tmp_path / "a.npz", image=X, text=LONG, x_groups=GX, y_groups=GY.astype(str))
    assert_groups(open_pair(tmp_path / "a.npz"), GX.astype(str), GY.astype(str))


@pytest.mark.parametrize(
    ("groups", "error", "text"),
    [
        ("produkt", InputValueError, "groups must name a column of .*x.parquet or a file, got "
         "'produkt'. Did you mean 'product'"),
        (("product", "name"), InputValueError, "groups must name a column of .*y.npz"),
        ((GX, GX), InputValueError, r"one label per row of .*y.npz: 20 rows, got shape \(12,\)"),
        ((GX * 0.5, GY), InputTypeError, "strings or whole numbers .* got float64"),
        ((GX, [None] * M), InputTypeError, "for every row of .*y.npz, got missing values"),
        ((GX,), InputValueError, "one for all modalities, or one for each of image, text"),
        (7, InputTypeError, "the name of a column, a path, or one for each side, got int"),
    ],
)  # fmt: skip
def test_groups_that_cannot_be_used(two_files, groups, error, text):
    with pytest.raises(error, match=text):
        open_pair(*two_files, groups=groups)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.json", b"[]", r"Labels are read from .npy, .txt, .csv, .jsonl and .parquet"),
        ("g.csv", b"a,b\n1,2\n", "a column 'group' or only one column, got 'a', 'b'"),
        ("g.csv", b"group,n\na,1\nb\n", r"must have 2 fields, .* but line 3 has 1"),
        ("g.csv", b"", "only one column, got none"),
        ("g.txt", b"1\n2\n", r"12 rows, got shape \(2,\)"),
        ("g.txt", b"\xff\xfe", "g.txt cannot be read as UTF-8 text"),
    ],
)
def test_label_files_that_cannot_be_used(tmp_path, two_files, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputValueError, match=message):
        open_pair(*two_files, groups=tmp_path / name)


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_whole_numbers_of_different_width_are_the_same_labels(tmp_path, dtype):
    np.savez(tmp_path / "a.npz", image=X, text=LONG)
    pair = open_pair(tmp_path / "a.npz", groups=(GX.astype(dtype), GY))
    assert_groups(pair)


def test_pairs_that_cannot_be_told_apart(tmp_path):
    np.savez(tmp_path / "two.npz", first=X, second=Y)
    with pytest.raises(InputValueError, match=r"'first', 'second'.*--y-column second"):
        open_pair(tmp_path / "two.npz")
    np.save(tmp_path / "one.npy", X)
    with pytest.raises(
        InputValueError, match=r"must hold two modalities, .*\(12, 4\).*second path"
    ):
        open_pair(tmp_path / "one.npy")
    with pytest.raises(InputValueError, match=r"has no 'frist'. Did you mean 'first'"):
        open_pair(tmp_path / "two.npz", x_column="frist", y_column="second")
    np.savez(tmp_path / "dims.npz", image=X, text=Y[:, :3])
    with pytest.raises(InputValueError, match="same number of columns, got 4 and 3"):
        open_pair(tmp_path / "dims.npz")
    with pytest.raises(InputValueError, match="names must differ"):
        open_pair(tmp_path / "two.npz", names=("image", "image"))
    torch.save((torch.ones(2), torch.ones(2, 2)), tmp_path / "a.pt")
    with pytest.raises(InputTypeError, match="must hold two matrices"):
        open_pair(tmp_path / "a.pt")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_groups_may_be_a_column_of_a_file(tmp_path, two_files, suffix):
    files = []
    for name, labels in (("x", GX), ("y", GY)):
        file = tmp_path / f"labels-{name}{suffix}"
        rows = [{"line": i, "photo": int(label)} for i, label in enumerate(labels)]
        if suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), file)
        elif suffix == ".csv":
            file.write_text("line,photo\n" + "".join(f"{r['line']},{r['photo']}\n" for r in rows))
        else:
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        files.append(file)
    x, y = files
    assert_groups(open_pair(*two_files, groups=f"{x}:photo,{y}:photo"))
    assert_groups(open_pair(*two_files, groups=(f"{x}:photo", f"{y}:photo")))
    wrong = r"labels-x\.\w+ has no column 'foto'. Did you mean 'photo'\? It holds 'line', 'photo'"
    with pytest.raises(InputValueError, match=wrong):
        open_pair(*two_files, groups=f"{x}:foto,{y}:photo")
    with pytest.raises(InputValueError, match=r"Name another: .*:COLUMN"):
        open_pair(*two_files, groups=f"{x},{y}")


def test_a_column_is_named_of_tables_alone(tmp_path, two_files):
    np.save(tmp_path / "g.npy", GX)
    with pytest.raises(InputValueError, match=r"from .csv, .jsonl and .parquet, got 'g.npy'"):
        open_pair(*two_files, groups=f"{tmp_path}/g.npy:a")
    (tmp_path / "g.jsonl").write_text('{"a": 1.5}\n' * len(GX))
    with pytest.raises(InputTypeError, match=r"Every 'a' of .*g.jsonl must be a text or a whole"):
        open_pair(*two_files, groups=f"{tmp_path}/g.jsonl:a")
