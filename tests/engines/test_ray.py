"""A real cluster of Ray with two nodes of one processor each: the same numbers, come what may."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import modgap
from command_line import modgap as command
from engine_rows import (
    assert_same,
    attempts,
    contents,
    cores,
    divided,
    make_shards,
    process_after_a_while,
    slow_parts,
)
from modgap.core.checks import InputError, InputValueError
from modgap.embed import embed
from modgap.engines import (
    RayEngine,
    apply_to_folder,
    corrected_batch,
    moments_of,
    partial_moments,
    retrieval_among_all,
    spread,
)
from modgap.evaluation import evaluate_correction
from modgap.io._matrices import Shards
from modgap.measures import measure
from photos import make_model, make_photos

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def client_port():
    """A port that is free, below those that Ray gives its workers."""
    for port in range(9200, 9300):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is no free port")


@pytest.fixture(scope="module")
def cluster(client_port):
    """The address of the cluster that all tests here share."""
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH", "")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), before])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 1024**2}
        head = {**node, "ray_client_server_port": client_port}
        started = Cluster(initialize_head=True, head_node_args=head)
        started.add_node(num_cpus=1, object_store_memory=100 * 1024**2)
    os.environ["PYTHONPATH"] = before
    yield started.address
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.shutdown()
        started.shutdown()


@pytest.fixture(scope="module")
def engine(cluster):
    return RayEngine(cluster)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture
def data(shards):
    return modgap.open_pair(*shards)


def test_the_cluster_has_two_workers(engine):
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    assert len({*engine.map(process_after_a_while, range(4))}) == 2
    assert [*engine.map(cores, range(4))] == [1] * 4  # not those of the machine


def test_measures_and_evaluations_are_the_local_ones(engine, data):
    there = spread(data, engine)
    assert_same(measure(there, sample=300), measure(data, sample=300))
    fixed = modgap.Calibrate().fit(there).correction_
    found, expected = (
        evaluate_correction(one, correction=fixed, sample=60) for one in (there, data)
    )
    assert_same(found, expected)
    found, expected = (
        retrieval_among_all(data, correction=fixed, sample=100, engine=one)
        for one in (engine, "local")
    )
    assert found.ranks_y.tolist() == expected.ranks_y.tolist()


def test_the_commands_are_the_same_there_and_here(engine, cluster, shards, tmp_path):
    both = [str(path) for path in shards]
    for method in ("calibrate", "procrustes"):
        files = {place: tmp_path / f"{place}-{method}.safetensors" for place in ("local", "ray")}
        for place, file in files.items():
            options = ("--method", method, "-o", file, "--engine", place)
            assert command("fit", *both, *options).status == 0
        here, there = (modgap.Correction.load(file) for file in files.values())
        rows = np.random.default_rng(0).normal(size=(9, here.dim_in))
        for name in here.names:
            np.testing.assert_allclose(there.map(name)(rows), here.map(name)(rows), rtol=1e-6)
    fixed = str(files["local"])
    ran = command(
        "apply", fixed, both[0], "--modality", "image", "-o", tmp_path / "out",
        "--engine", f"ray:{cluster}",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    command("apply", fixed, both[0], "--modality", "image", "-o", tmp_path / "one.npy")
    found = modgap.open_embeddings(tmp_path / "out").rows()
    np.testing.assert_array_equal(found, np.load(tmp_path / "one.npy"))
    command("apply", fixed, both[0], "--modality", "image", "-o", tmp_path / "here")
    assert contents(tmp_path / "out") == contents(tmp_path / "here")
    ran = command(
        "apply", fixed, both[0], "--modality", "image", "-o", tmp_path / "x.npy", "--engine", "ray"
    )
    assert ran.status == 2
    assert "writes a folder of shards" in ran.err
    options = ("--sample", 60, "--all-documents", "--json")
    here, there = (
        command("evaluate", *both, *options, "--engine", place) for place in ("local", "ray")
    )
    assert there.json == here.json
    assert there.json["among_all"]["raw"]["n_queries_text"] == 60


def test_a_machine_outside_the_cluster_gets_the_same_through_the_client(
    cluster, client_port, shards, tmp_path
):
    there = f"ray://127.0.0.1:{client_port}"

    def in_a_process(*args: object) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "modgap", *map(str, args), "--engine", there]
        for _ in range(3):  # a busy machine may not answer the client in time
            done = subprocess.run(words, capture_output=True, text=True)
            if "There is no cluster of Ray" not in done.stderr:
                break
        return done

    done = in_a_process("measure", *shards, "--json")
    assert done.returncode == 0, done.stderr
    found, expected = json.loads(done.stdout), measure(*shards).to_dict()
    for key in ("gap_distance", "unit_gap_distance", "linear_separability"):
        assert found[key] == pytest.approx(expected[key], rel=1e-6), key

    rows = np.ones((40, 4), "float32")
    rows[25, 2] = np.nan
    np.save(tmp_path / "bad.npy", rows)
    refused = in_a_process("measure", tmp_path / "bad.npy", tmp_path / "bad.npy")
    assert refused.returncode == 2, refused.stderr
    assert "the first at row 25" in refused.stderr


def test_items_are_embedded_as_they_are_here(engine, tmp_path):
    photos = make_photos(tmp_path / "photos", 11, captions=2, broken=(4,))
    model = make_model("means")
    told: list[int] = []
    here = embed(model, photos, tmp_path / "here", shard_items=3)
    there = embed(
        model, photos, tmp_path / "there", shard_items=3, engine=engine,
        progress=lambda _, done, total: told.append(done),
    )  # fmt: skip
    assert told == [0, 3, 6, 9, 11]
    assert (there.rows, there.skipped) == (here.rows, here.skipped)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_batches_of_ray_data_go_through_the_public_functions(engine, data):
    import pyarrow as pa

    fixed = modgap.Calibrate().fit(data).correction_
    rows = data.y.rows()
    table = pa.table({"id": range(len(rows)), "embedding": rows.tolist()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = ray.data.from_arrow(table).repartition(4)
        partial = source.map_batches(partial_moments, batch_format="pyarrow", batch_size=100)
        found = moments_of(ray.get(partial.to_arrow_refs()))
        tensors = ray.data.from_numpy(rows).map_batches(partial_moments, batch_format="pyarrow")
        of_tensors = moments_of(ray.get(tensors.to_arrow_refs()))
        corrected = source.map_batches(
            corrected_batch, batch_format="pyarrow",
            fn_kwargs={"correction": fixed, "modality": "text"},
        ).sort("id").take_all()  # fmt: skip
    expected = data.y.moments("text")
    np.testing.assert_allclose(found.unit.scatter, expected.unit.scatter, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(of_tensors.given.mean, expected.given.mean, rtol=1e-6, atol=1e-9)
    vectors = np.stack([row["embedding"] for row in corrected])
    np.testing.assert_allclose(vectors, fixed.apply(rows.astype(float), "text"), rtol=1e-6)


@contextmanager
def killing(folder: Path, part: int) -> Iterator[list[int]]:
    """While it lasts, the first process that begins to read a part is killed half-way."""
    killed: list[int] = []

    def watch() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for number, process in attempts(folder):
                if number == part:
                    time.sleep(0.3)  # one of its two batches is read
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    yield killed
    thread.join()


def test_a_worker_killed_over_moments_changes_nothing(engine, data, tmp_path):
    from dataclasses import replace

    expected = data.x.moments("image")
    slow = replace(data.x, matrix=Shards(slow_parts(tmp_path, data.x.rows(), 4)))
    there = spread(modgap.Modalities.of({"image": slow, "text": data.y}), engine)
    with killing(tmp_path, 1) as killed:
        found = there.sides["image"].moments("image")
    assert len(killed) == 1
    readers = [process for part, process in attempts(tmp_path) if part == 1]
    assert len(readers) == 2
    assert readers[0] == killed[0] != readers[1]
    assert found.n == expected.n
    np.testing.assert_allclose(found.given.scatter, expected.given.scatter, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.unit.mean, expected.unit.mean, rtol=1e-6, atol=1e-9)


def test_a_worker_killed_over_a_shard_leaves_the_folder_as_it_would_be(engine, data, tmp_path):
    from dataclasses import replace

    fixed = modgap.Calibrate().fit(data).correction_
    slow = replace(data.x, matrix=Shards(slow_parts(tmp_path, data.x.rows(), 4)))
    apply_to_folder(fixed, slow, "image", tmp_path / "expected")
    (tmp_path / "log").unlink()
    with killing(tmp_path, 2) as killed:
        apply_to_folder(fixed, slow, "image", tmp_path / "out", engine=engine)
    assert len([process for part, process in attempts(tmp_path) if part == 2]) == 2
    assert len(killed) == 1
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "log", "out"]


def test_what_goes_wrong_in_a_worker_is_said_as_it_is_here(engine, tmp_path):
    rows = np.ones((40, 4), "float32")
    rows[25, 2] = np.nan
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", rows[20 * number : 20 * number + 20])
    told = []
    for place in (engine, "local"):
        data = modgap.Modalities.of(modgap.open_embeddings(tmp_path), np.ones((40, 4)))
        with pytest.raises(InputError, match="the first at row 25") as refused:
            measure(spread(data, place))
        told.append(str(refused.value))
    assert told[0] == told[1]
    with pytest.raises(RuntimeError, match="division by zero"):
        list(engine.map(divided, [0]))
    with pytest.raises(InputValueError, match="cannot be sent to the workers"):
        list(engine.map(len, [threading.Lock()]))  # type: ignore[list-item]


def test_a_shard_that_vanishes_is_named(engine, tmp_path):
    shards = make_shards(tmp_path)
    there = spread(modgap.open_pair(*shards), engine)
    (shards[1] / "part_1.npy").unlink()
    with pytest.raises(InputError, match=r"part_1.npy was removed"):
        there.moments()
