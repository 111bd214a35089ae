"""What scripts draw, save, write and ask of tfdist on two workers, which run them one after the other."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import yaml

from tests.helpers.cli_process import ROOT
from tests.helpers.ports import free_ports
from tests.workers.worker_scripts import BOUND, SCRIPTS, all_said, assert_close, said, train
from tfdist.rundir import RunDir

pytestmark = pytest.mark.bound(3 * BOUND)


@dataclass(frozen=True)
class Job:
    """One run of all scripts.

    Attributes:
        run: Its run directory.
        said: What each worker said, by script.
        saved: Where `saving.py` saved.
        written: Where `files.py` wrote.
        requests: For what `files.py` has asked the web server.
    """

    run: Path
    said: dict[str, list[Any]]
    saved: Path
    written: Path
    requests: list[str]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("job")
    run, saved, written = (folder / name for name in ("run", "saved", "written"))
    saved.mkdir()
    # Without it Keras would take a cache directory that all users of the machine share.
    (written / "cache").mkdir(parents=True)
    with origin() as (address, digest, requests):
        scripts = {"unseeded.py": [], "saving.py": [saved], "files.py": [written, address, digest]}
        scripts |= {"api.py": []} if os.environ.get("TFDIST_SLOW_TESTS") else {}
        calls = [json.dumps([str(SCRIPTS / name), *map(str, given)]) for name, given in scripts.items()]
        # The order of a set follows from the seed of hashes, which a process has from its start on.
        train(run, "one_after_another.py", *calls, timeout=2 * BOUND, are_warm=False)
    workers = [all_said(run, index) for index in range(2)]
    return Job(run, dict(zip(scripts, map(list, zip(*workers, strict=True)), strict=True)), saved, written, requests)


@contextlib.contextmanager
def origin() -> Iterator[tuple[str, str, list[str]]]:
    """A web server with one file: its address, the file's digest, and the requests so far."""
    content = bytes(range(256)) * 4096
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/data.bin", hashlib.sha256(content).hexdigest(), requests
        finally:
            server.shutdown()
            thread.join(BOUND)


def test_a_script_that_seeds_nothing(job: Job, tmp_path: Path) -> None:
    first, second = job.said["unseeded.py"]
    assert first["drawn"] == second["drawn"]
    for name in first["fits"]:
        ours, theirs = first["fits"][name], second["fits"][name]
        assert ours["history"] == theirs["history"]
        assert ours["weights"] == theirs["weights"]
    assert first["wandered"] == second["wandered"]
    assert first["wandered"]["moved"] == pytest.approx(first["wandered"]["said"])
    seed = yaml.safe_load((job.run / "config.yaml").read_text())["seed"]
    alone = tmp_path / "alone"
    subprocess.run(
        [sys.executable, "-m", "tests.workers.seeded_launcher", str(seed), "1", alone, SCRIPTS / "unseeded.py"],
        cwd=ROOT, capture_output=True, timeout=BOUND, check=True,
    )  # fmt: skip
    one = said(alone, 0)
    assert one["drawn"] == first["drawn"]
    for name in first["fits"]:
        assert_close(one["fits"][name]["history"], first["fits"][name]["history"])
        assert_close(one["fits"][name]["weights"], first["fits"][name]["weights"])
        steps = zip(first["fits"][name]["read"], second["fits"][name]["read"], strict=True)
        together = [sorted(ours + theirs) for ours, theirs in steps]
        assert together == [sorted(step) for step in one["fits"][name]["read"]]
        assert_each_sample_once(together, of_batches="PyDataset" in name)


def test_processes_that_a_script_forks_say_nothing(job: Job) -> None:
    for index in range(2):
        assert "Exception ignored" not in RunDir(job.run).log_file(index, 0).read_text()


def assert_each_sample_once(steps: list[list[int]], of_batches: bool) -> None:
    """Three epochs of five steps have every sample once each, in another order each time.

    Keras shuffles no samples of a PyDataset, but its batches: with these five, one epoch in 120 has another's order.
    """
    epochs = [steps[start : start + 5] for start in range(0, len(steps), 5)]
    assert [sorted(sum(epoch, [])) for epoch in epochs] == [list(range(37))] * 3
    if of_batches:
        assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    else:
        assert len({str(epoch) for epoch in epochs}) == 3


def test_saved_by_the_chief(job: Job) -> None:
    files = job.saved
    first, second = job.said["saving.py"]
    assert first == second
    assert set(first["differences"].values()) == {0.0}
    models = {"model.keras", "function.keras", "chief.keras", "model.h5", "exported", "archive"}
    weights = {"all.weights.h5", "chief.weights.h5", "sharded.weights.json"}
    shards = keras.tree.flatten(json.loads((files / "sharded.weights.json").read_text())["weight_map"])
    assert len(set(shards)) > 1
    assert {path.name for path in files.iterdir()} == {*models, *weights, *shards, "predicted-0.npy", "predicted-1.npy"}
    # In plain Keras, here, they predict the same.
    predicted = np.load(files / "predicted-0.npy")
    np.random.seed(3)
    x = np.random.normal(size=(45, 4)).astype("float32")
    for name in ("model.keras", "model.h5"):
        np.testing.assert_allclose(keras.saving.load_model(files / name).predict(x, verbose=0), predicted, atol=1e-6)
    for name in ("exported", "archive"):
        exported = keras.layers.TFSMLayer(files / name, call_endpoint="serve")
        np.testing.assert_allclose(exported(x), predicted, atol=1e-6)


def test_files_of_callbacks_and_downloads(job: Job) -> None:
    files = job.written
    first, second = job.said["files.py"]
    assert first == second
    assert first["downloaded"] == 256 * 4096
    assert job.requests == ["/data.bin"]
    rows = list(csv.DictReader((files / "log.csv").open()))
    assert [int(row["epoch"]) for row in rows] == list(range(first["epochs"]))
    assert first["epochs"] < 20, "EarlyStopping did not stop"
    assert (files / "board.txt").read_text().split() == ["0"] * first["epochs"]
    checkpoints = [*(files / "best").iterdir(), files / "last.weights.h5"]
    assert all(not path.name.startswith(".") for path in checkpoints)
    best = keras.saving.load_model(max((files / "best").iterdir()))
    assert best.get_weights()[0].shape == (1, 1)


ANSWERS = {
    "workers": 2,
    "replicas": 2,
    "reduced": {"sum": [1, 2.5], "mean": [0.5, 1.25], "max": [1, 2.5], "min": [0, 0]},
    "gathered": [[0, 10], [1, 10]],
    "broadcast": 1.5,
    "exchanged": True,
}


@pytest.mark.slow
def test_the_api_with_and_without_the_launcher(job: Job) -> None:
    launched = job.said["api.py"]
    plain = run_with_tf_config("api.py")
    alone = run_plainly("api.py", {})
    for answers in (launched, plain):
        for index, answer in enumerate(answers):
            assert_close(alone["losses"], answer.pop("losses"))
            said = "float64 of shape (1,) on worker 0; float64 of shape (101,) on worker 1."
            assert said in answer.pop("refused")
            assert answer == {**ANSWERS, "index": index, "is_chief": index == 0}
    del alone["losses"]
    assert alone == {
        "index": 0,
        "workers": 1,
        "replicas": 1,
        "is_chief": True,
        "reduced": {op: [0, 0] for op in ("sum", "mean", "max", "min")},
        "gathered": [[0, 10]],
        "broadcast": 0.5,
        "exchanged": True,
        "refused": "none",
    }


def run_plainly(script: str, environ: dict[str, str]) -> Any:
    """What a script says when python runs it."""
    process = start_plainly(script, environ)
    return end_plainly(process)


def run_with_tf_config(script: str) -> list[Any]:
    """What the two workers of a TF_CONFIG say when python runs them."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    configs = [{"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2)]
    processes = [start_plainly(script, {"TF_CONFIG": json.dumps(config)}) for config in configs]
    try:
        return [end_plainly(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def start_plainly(script: str, environ: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPTS / script],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_plainly(process: subprocess.Popen[str]) -> Any:
    try:
        out, err = process.communicate(timeout=BOUND)
    finally:
        process.kill()
    assert process.returncode == 0, out + err
    return json.loads(out.splitlines()[-1])
