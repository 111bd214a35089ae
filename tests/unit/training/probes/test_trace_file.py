from __future__ import annotations

from pathlib import Path

import numpy as np

from tfdist.training.probes.trace_file import (
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
