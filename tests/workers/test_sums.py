"""Sums over the replicas of several workers: every size and type, and many at once."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.workers.running import tfdist

SCRIPT = """
    import json, sys
    import numpy as np
    import tensorflow as tf
    import tfdist
    from tfdist.runtime.sums import sum_over_replicas

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
    open(f"{sys.argv[1]}.{tfdist.worker_index()}", "w").write(json.dumps(same))
"""


def test_sums_are_exact_on_every_worker(tmp_path: Path) -> None:
    script, out = tmp_path / "script.py", tmp_path / "same"
    script.write_text(textwrap.dedent(SCRIPT))
    done = tfdist("train", "--nproc", "3", "--run-dir", tmp_path / "run", script, out, timeout=100)
    assert done.returncode == 0, done.stderr
    for worker in range(3):
        assert json.loads(Path(f"{out}.{worker}").read_text()) == [True] * 8


@pytest.mark.parametrize(("compression", "error"), [("bfloat16", 2**-7), ("float16", 2**-10)])
def test_compressed_gradients_are_off_by_what_is_said(tmp_path: Path, compression: str, error: float) -> None:
    body = """
    import sys, tensorflow as tf, tfdist
    from tfdist.runtime import sums
    strategy = tfdist.strategy()
    values = tf.random.stateless_normal([1000], [3, tfdist.worker_index()])
    whole = sum(tf.random.stateless_normal([1000], [3, worker]) for worker in range(2))
    size = sum(tf.abs(tf.random.stateless_normal([1000], [3, worker])) for worker in range(2))
    sent = tf.function(lambda: strategy.run(lambda: sums.sum_gradients([values])[0]))()
    off = float(tf.reduce_max(tf.abs(sent - whole) / size))
    assert sent.dtype == tf.float32
    print("off by", off, file=open(sys.argv[1], "w"))
    """
    script, out = tmp_path / "script.py", tmp_path / "off.txt"
    script.write_text(textwrap.dedent(body))
    done = tfdist("train", "--nproc", "2", "--compression", compression, "--run-dir", tmp_path / "run", script, out)
    assert done.returncode == 0, done.stderr
    off = float(out.read_text().removeprefix("off by"))
    assert 0 < off <= error
