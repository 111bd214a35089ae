from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from tfdist.training.probes.probe_files import (
    Moment,
    Recording,
    Trace,
    TracedEnd,
    TracedEpoch,
    TracedStart,
    TracedSteps,
    digest,
    write_line,
)

ENTRIES = (
    TracedSteps(6, 2, 0.1, 5),
    TracedEpoch(6, 1, {"loss": float("inf"), "val_loss": 0.3}),
    TracedSteps(7, 1, 2.0, 5),
)


def test_a_trace_comes_back(tmp_path: Path) -> None:
    with (tmp_path / "trace").open("w") as file:
        for entry in (TracedStart(3), *ENTRIES):
            write_line(file, entry)
    trace = Trace.read(tmp_path / "trace")
    assert trace == Trace((ENTRIES[0], ENTRIES[2]), (ENTRIES[1],), 3)  # type: ignore[arg-type]
    assert (trace.begun, trace.ended) == (4, 7)


def test_a_line_that_a_kill_has_cut_is_none(tmp_path: Path) -> None:
    with (tmp_path / "trace").open("w") as file:
        write_line(file, ENTRIES[0])
        file.write('{"step": 7, "da')
    assert Trace.read(tmp_path / "trace").steps == (ENTRIES[0],)


def test_who_was_killed_before_the_first_step_has_none(tmp_path: Path) -> None:
    trace = Trace.read(tmp_path / "trace")
    assert trace.workers is None
    assert (trace.steps, trace.begun, trace.ended) == ((), None, None)


def test_an_end_comes_back(tmp_path: Path) -> None:
    array = np.float32([1.0, -0.0])
    TracedEnd({"dense/kernel": digest(array)}, {"dense/kernel": array}).write(tmp_path / "end.npz")
    end = TracedEnd.read(tmp_path / "end.npz")
    assert end is not None
    assert end.digests == {"dense/kernel": digest(array)}
    np.testing.assert_array_equal(end.elements["dense/kernel"], array)
    assert TracedEnd.read(tmp_path / "none.npz") is None


def test_a_digest_tells_what_is_equal_and_not_the_same() -> None:
    assert digest(np.float32([0.0])) != digest(np.float32([-0.0]))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    weights = {"a/kernel": np.arange(3, dtype=np.float32), "b": np.zeros(0, np.float64)}
    moments = (
        Moment(0, 0, weights=weights),
        Moment(1, 0, {"loss": math.nan}, math.inf, 2.5, {"a/kernel": weights["b"]}, {"a/kernel": 0.5}),
    )
    file = tmp_path / "worker-0.npz"
    Recording({"gpus": 0, "models": [{"random_layers": []}]}, moments).write(file)
    read = Recording.read(file)
    assert read is not None
    assert read.facts == {"gpus": 0, "models": [{"random_layers": []}]}
    first, second = read.moments
    assert (first.step, first.fit, dict(first.values), first.gradient_norm, first.data) == (0, 0, {}, None, None)
    assert list(first.weights) == ["a/kernel", "b"]
    np.testing.assert_array_equal(first.weights["a/kernel"], weights["a/kernel"])
    assert first.weights["a/kernel"].dtype == np.float32
    assert math.isnan(second.values["loss"]) and second.gradient_norm == math.inf
    assert (second.data, dict(second.differences)) == (2.5, {"a/kernel": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["worker-0.npz"]


def test_a_part_is_as_if_there_had_been_nothing_else() -> None:
    moments = [Moment(0, 0), Moment(3, 0), Moment(3, 1), Moment(5, 1), Moment(5, 2), Moment(6, 2)]
    recording = Recording({"gpus": 1, "models": ["a", "b", "c"]}, moments)
    part = recording.part(range(1, 3))
    assert [(moment.step, moment.fit) for moment in part.moments] == [(0, 0), (2, 0), (2, 1), (3, 1)]
    assert part.facts == {"gpus": 1, "models": ["b", "c"]}
    assert recording.part(range(0, 0)).moments == ()


def test_there_may_be_none(tmp_path: Path) -> None:
    assert Recording.read(tmp_path / "worker-0.npz") is None


def test_the_launcher_reads_it_without_tensorflow() -> None:
    script = (
        "import sys\n"
        "from tfdist.verify.replicas import verification, verification_report\n"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], timeout=150, check=True)
