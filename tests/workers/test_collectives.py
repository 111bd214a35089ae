"""The collectives of scripts, on real workers."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow
from tests.workers.worker_scripts import EMULATED, train


@pytest.mark.parametrize(
    ("workers", "communication"),
    # That of nccl runs the ring as well, for all that does not go from device to device.
    [(2, "shm"), (2, "nccl"), slow(2, "ring"), slow(3, "shm"), slow(3, "ring"), slow(3, "nccl")],
)
def test_each_worker_gets_what_it_should(tmp_path: Path, workers: int, communication: str) -> None:
    """Eagerly and in functions, with gradients and in groups, new variables too; and all are told of what differs.

    What carries calls of all workers carries those of some of them.
    """
    ran = train(
        tmp_path / "run", "exchanging.py", communication, workers=workers, communication=communication,
        environ=EMULATED if communication == "nccl" else None,
    )  # fmt: skip
    for said in ran:
        assert [name for name, is_right in said["right"].items() if not is_right] == []
        assert len(said["right"]) > 50
        carried = {each for each in said["operations"] if "Collective" in each or "PyFunc" in each}
        assert carried == ({"PyFunc"} if communication == "shm" else {"CollectiveGatherV2"})
        kinds = ["CollectiveAllToAllV2", "CollectiveGatherV2", "CollectiveReduceV2"]
        places = ["eagerly", "in a function"] if communication == "nccl" else []
        assert said["ordered"] == [f"{kind} {place}" for kind in kinds for place in places]
        refused = said["refused"]
        assert "float32 of shape (3,) on worker 0; float32 of shape (4,) on worker 1" in refused["shape"]
        assert "float32 of shape (1000,) on worker 0; float64 of shape (1000,) on worker" in refused["dtype"]
        assert "all_gather on worker 0; all_reduce(sum) on worker" in refused["call"]
        if communication == "shm":
            assert "'odd', as this worker names it, of float32 (2, 3) on worker 0, float32 (3, " in refused["variable"]
        assert "[on worker 0:] [all_reduce(sum) of float32 of shape (3,)] [on worker 1:]" in refused["function"]
        assert "of shape (4,)" in refused["function"]


MISSING = """
    import time
    import tensorflow as tf
    import tfdist

    total = tf.function(lambda: tfdist.all_reduce(tf.ones([3])))
    total()
    if tfdist.worker_index() == 1:
        time.sleep(1000)
"""
WAITS = {
    "a handle for which nobody waits": "handle = tfdist.all_reduce(tf.ones([3]), async_op=True); time.sleep(1000)",
    "a function": "total()",
    "what another worker sends": "tfdist.recv(1)",
}


@pytest.mark.bound(120)
@pytest.mark.parametrize("wait", ["a function", *(slow(wait) for wait in WAITS if wait != "a function")])
def test_a_worker_that_does_not_come_is_named(tmp_path: Path, wait: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(MISSING) + WAITS[wait])
    options = ["--nproc", 2, "--run-dir", tmp_path / "run", "--step-timeout", 4, "--quiet"]
    done = tfdist("train", *options, script, timeout=100)
    assert done.returncode == 4, done.stderr
    assert "error: worker 1 (" in done.stderr.splitlines()[0]
    assert "outside of fit, evaluate and predict: " in done.stderr
    assert "waits in a collective that the script calls" in done.stderr
