"""Scripts that know nothing of tfdist, or little, run on two workers as python runs them on one device."""

from __future__ import annotations

import csv
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import yaml

from tests.ports import free_ports
from tests.workers.running import ROOT, tfdist

SCRIPTS = Path(__file__).parent / "scripts"
BOUND = 60  # seconds
ROUNDING = 1e-5


def said(run: Path, index: int) -> Any:
    """What worker `index` said in the last line of JSON in its log."""
    lines = (run / "logs" / f"worker-{index}.0.log").read_text().splitlines()
    return json.loads([line for line in lines if line.startswith("{")][-1])


def train(run: Path, script: str, *arguments: object, workers: int = 2, code: int = 0) -> list[Any]:
    """Runs a script on some workers, asserts its exit code and returns what each of them said."""
    done = tfdist("train", "--nproc", workers, "--run-dir", run, "--step-timeout", 30, SCRIPTS / script, *arguments,
                  timeout=BOUND)  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return [said(run, index) for index in range(workers)]


def assert_close(one: Any, two: Any) -> None:
    """Compares structures of numbers, up to rounding."""
    ones, twos = keras.tree.flatten(one), keras.tree.flatten(two)
    keras.tree.assert_same_structure(one, two)
    np.testing.assert_allclose(twos, ones, rtol=ROUNDING, atol=ROUNDING)


def test_what_python_gives_a_script(tmp_path: Path) -> None:
    script = tmp_path / "link.py"
    script.symlink_to(SCRIPTS / "surroundings.py")
    arguments = ["--epochs", "3", "--run-dir", "x", "--help", "3"]
    done = tfdist("train", "--nproc", 2, "--run-dir", "run", "link.py", *arguments, cwd=tmp_path, timeout=BOUND)
    assert done.returncode == 3, done.stderr
    for index in range(2):
        assert said(tmp_path / "run", index) == {
            "argv": ["link.py", *arguments],
            "name": "__main__",
            "file": str(script),
            "package": "",
            "is_main": True,
            "path": str(SCRIPTS),
            "cwd": str(tmp_path),
            "stdin": "",
            "beside": 42,
            "annotation": True,
            "replicas": 2,
            "backend": "tensorflow",
        }
    # The chief's output is on the terminal, the other worker's in its log; both ran their exit handlers.
    assert done.stdout.count("last words of __main__") == 1
    assert done.stderr == ""
    for index in range(2):
        assert "last words of __main__" in (tmp_path / "run" / "logs" / f"worker-{index}.0.log").read_text()


def test_a_module_that_exits_with_text(tmp_path: Path) -> None:
    done = tfdist("train", "--nproc", 2, "--run-dir", tmp_path / "run", "-m", "package.member", "--workers", "x",
                  cwd=SCRIPTS, timeout=BOUND)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "no more to do\n"
    for index in range(2):
        assert said(tmp_path / "run", index) == {
            "argv": [str(SCRIPTS / "package" / "member.py"), "--workers", "x"],
            "name": "__main__",
            "package": "package",
            "path": str(SCRIPTS),
        }


@pytest.mark.parametrize(
    ("how", "last", "frames"),
    [("function", 'KeyError: "the script\'s own"', 2), ("syntax", "SyntaxError: invalid syntax", 1)],
)
def test_an_exception_of_the_script(tmp_path: Path, how: str, last: str, frames: int) -> None:
    done = tfdist("train", "--run-dir", tmp_path / "run", SCRIPTS / "raises.py", how, timeout=BOUND)
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert last in done.stderr
    assert done.stderr.count(f'File "{SCRIPTS / "raises.py"}", line') == frames
    assert "tfdist/training" not in done.stderr
    assert "runpy" not in done.stderr


def test_a_script_that_seeds_nothing(tmp_path: Path) -> None:
    first, second = train(tmp_path / "two", "unseeded.py")
    assert first["drawn"] == second["drawn"]
    for name in first["fits"]:
        ours, theirs = first["fits"][name], second["fits"][name]
        assert ours["history"] == theirs["history"]
        assert ours["weights"] == theirs["weights"]
        assert_each_sample_once(ours["read"], theirs["read"])
    seed = yaml.safe_load((tmp_path / "two" / "config.yaml").read_text())["seed"]
    alone = tmp_path / "alone"
    subprocess.run(
        [sys.executable, "-m", "tests.workers.seeded", str(seed), "1", alone, SCRIPTS / "unseeded.py"],
        cwd=ROOT, capture_output=True, timeout=BOUND, check=True,
    )  # fmt: skip
    one = said(alone, 0)
    assert one["drawn"] == first["drawn"]
    for name in first["fits"]:
        assert_close(one["fits"][name]["history"], first["fits"][name]["history"])
        assert_close(one["fits"][name]["weights"], first["fits"][name]["weights"])


def assert_each_sample_once(ours: list[list[int]], theirs: list[list[int]]) -> None:
    """Both workers together read every sample once in each epoch, in another order each time."""
    steps = [first + second for first, second in zip(ours, theirs, strict=True)]
    epochs = [sum(steps[start : start + 5], []) for start in range(0, len(steps), 5)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(37))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_batches_and_loops_of_the_scripts_own(tmp_path: Path) -> None:
    (one,) = train(tmp_path / "one", "loops.py", workers=1)
    for worker in train(tmp_path / "two", "loops.py", "tape", code=2):
        assert_close(one, worker)
    failure = json.loads((tmp_path / "two" / "failure.json").read_text())
    assert "strategy().run(" in failure["message"]
    assert f"in {SCRIPTS / 'loops.py'}, line" in failure["message"]


def test_saved_by_the_chief_and_loaded_by_all(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    first, second = train(tmp_path / "run", "saving.py", files)
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


def test_a_save_that_fails_leaves_the_earlier_file(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    first, second = train(tmp_path / "run", "failing_saves.py", files, code=4)
    assert len(first["errors"]) == 2
    assert all("missing" in error for error in first["errors"])
    assert second["errors"] == []
    assert [path.name for path in files.iterdir()] == ["model.keras"]
    assert not keras.saving.load_model(files / "model.keras").layers[0].bias.numpy().any()
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure["index"] == 0
    assert "File too large" in failure["message"]
    assert "model.keras could not be saved; what was there before is as it was." in failure["traceback"]


@pytest.mark.parametrize(
    ("options", "kind", "replicas"),
    [(["--nproc", "2"], "MultiWorkerMirroredStrategy", 2), (["--logical-devices", "2"], "MirroredStrategy", 2)],
)
def test_a_script_with_a_strategy_of_its_own(tmp_path: Path, options: list[str], kind: str, replicas: int) -> None:
    done = tfdist("train", *options, "--run-dir", tmp_path, SCRIPTS / "own_strategy.py", kind, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    result = said(tmp_path, 0)
    losses = result.pop("losses")
    assert losses[0] == losses[1], "clear_session() took the strategy away"
    assert result == {"is_instance": True, "is_other": False, "replicas": replicas, "current": True}
    for setting in ("threading.set_intra_op_parallelism_threads", "set_logical_device_configuration"):
        assert done.stderr.count(f"tfdist: tf.config.{setting} in the script is ignored") == 1


@pytest.mark.parametrize("kind", ["MirroredStrategy", "OneDeviceStrategy"])
def test_a_strategy_that_does_not_fit(tmp_path: Path, kind: str) -> None:
    done = tfdist("train", "--nproc", 2, "--run-dir", tmp_path, SCRIPTS / "own_strategy.py", kind, timeout=BOUND)
    assert done.returncode == 2
    assert f"The script makes a {kind}, and this run has 2 workers" in done.stderr
    assert "tfdist.strategy()" in done.stderr
    assert "Traceback" not in done.stderr


ANSWERS = {
    "workers": 2,
    "replicas": 2,
    "reduced": {"sum": [1, 2.5], "mean": [0.5, 1.25], "max": [1, 2.5], "min": [0, 0]},
    "gathered": [[0, 10], [1, 10]],
    "broadcast": 1.5,
}


def test_the_api_with_and_without_the_launcher(tmp_path: Path) -> None:
    launched = train(tmp_path / "run", "api.py")
    plain = run_with_tf_config("api.py")
    alone = run_plainly("api.py", {})
    for answers in (launched, plain):
        for index, answer in enumerate(answers):
            assert_close(alone["losses"], answer.pop("losses"))
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


@pytest.fixture
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


def test_files_of_callbacks_and_downloads(tmp_path: Path, origin: tuple[str, str, list[str]]) -> None:
    address, digest, requests = origin
    files = tmp_path / "files"
    # Without it Keras would take a cache directory that all users of the machine share.
    (files / "cache").mkdir(parents=True)
    first, second = train(tmp_path / "run", "files.py", files, address, digest)
    assert first == second
    assert first["downloaded"] == 256 * 4096
    assert requests == ["/data.bin"]
    rows = list(csv.DictReader((files / "log.csv").open()))
    assert [int(row["epoch"]) for row in rows] == list(range(first["epochs"]))
    assert first["epochs"] < 20, "EarlyStopping did not stop"
    assert (files / "board.txt").read_text().split() == ["0"] * first["epochs"]
    checkpoints = [*(files / "best").iterdir(), files / "last.weights.h5"]
    assert all(not path.name.startswith(".") for path in checkpoints)
    best = keras.saving.load_model(max((files / "best").iterdir()))
    assert best.get_weights()[0].shape == (1, 1)
