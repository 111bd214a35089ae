"""Sums over the replicas of several workers: every size and type, many at once, and compressed."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.marks import slow
from tests.workers.cli_process import tfdist

SCRIPT = """
    import json, sys
    import numpy as np
    import tensorflow as tf
    import tfdist
    from tfdist.runtime.transport.replica_sums import sum_gradients, sum_over_replicas

    strategy = tfdist.strategy()
    large = 7_500_005  # 30 MB: three workers sum it in several rings, with a rest

    def values(worker):
        generator = np.random.default_rng(worker)
        dense = [generator.integers(-9, 9, shape).astype(dtype) for shape, dtype in (
            ((), "f4"), ((3,), "f4"), ((large,), "f4"), ((2, 0), "f4"), ((4, 5), "f2"), ((7, 300), "f4"), ((7,), "f8"),
        )]
        return dense, generator.integers(-9, 9, (2, 3)).astype("f4"), np.array([worker, 5])

    @tf.function
    def reduced(dense, sparse, indices):
        def step(dense, sparse, indices):
            slices = tf.IndexedSlices(sparse, indices, dense_shape=tf.constant([8, 3], tf.int64))
            *totals, total = sum_over_replicas([*dense, slices])
            assert isinstance(total, tf.IndexedSlices)
            return totals, tf.convert_to_tensor(total)
        return strategy.run(step, args=(dense, sparse, indices))

    for _ in range(3):
        totals, sparse_total = reduced(*values(tfdist.worker_index()))
    per_worker = [values(worker) for worker in range(tfdist.num_workers())]
    same = [bool(np.array_equal(total, sum(v[0][i] for v in per_worker))) for i, total in enumerate(totals)]
    wanted = np.zeros((8, 3), "f4")
    for _, rows, indices in per_worker:
        np.add.at(wanted, indices, rows)
    same.append(bool(np.array_equal(sparse_total, wanted)))

    gradients = [tf.random.stateless_normal([1000], [3, worker]) for worker in range(tfdist.num_workers())]
    sent = tf.function(lambda: strategy.run(lambda: sum_gradients([gradients[tfdist.worker_index()]])[0]))()
    assert sent.dtype == tf.float32
    off = float(tf.reduce_max(tf.abs(sent - sum(gradients)) / sum(map(tf.abs, gradients))))
    open(f"{sys.argv[1]}.{tfdist.worker_index()}", "w").write(json.dumps({"same": same, "off": off}))
"""


WORKERS = 3


@pytest.mark.parametrize(("compression", "rounding"), [("float16", 2**-11), slow("bfloat16", 2**-8)])
def test_sums_are_exact_and_compressed_gradients_off_by_what_is_said(
    tmp_path: Path, compression: str, rounding: float
) -> None:
    """On every worker. Each gradient is rounded, and so is each partial sum on the way: on three workers two."""
    script, out = tmp_path / "script.py", tmp_path / "said"
    script.write_text(textwrap.dedent(SCRIPT))
    options = ["--nproc", WORKERS, "--compression", compression, "--run-dir", tmp_path / "run"]
    done = tfdist("train", *options, script, out, timeout=100)
    assert done.returncode == 0, done.stderr
    for worker in range(WORKERS):
        said = json.loads(Path(f"{out}.{worker}").read_text())
        assert said["same"] == [True] * 8
        assert 0 < said["off"] <= WORKERS * rounding
