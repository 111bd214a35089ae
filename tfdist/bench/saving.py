"""What checkpoints cost: `python -m tfdist.bench.saving [MODEL] [--every 50] [--pairs 5]`.

In one process on one device, in turn: `fit` without checkpoints, and the same with one after so many steps. Steps are
timed until `TAIL` after it, in which the background writes; what that costs beyond the plain steps is the cost of one.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

BATCH = 256
TAIL = 15
"""Steps after the checkpoint that are timed: longer than it takes to write."""


@dataclass(frozen=True)
class Cost:
    """Of one pair.

    Attributes:
        plain: Seconds of the steps without a checkpoint.
        extra: Seconds that they took longer with one.
        work: Seconds of processor time that the plain steps took, in all threads.
        extra_work: Seconds of processor time more with a checkpoint: what a machine that others share does not change.
        stall: Seconds that the training stood still for it.
        background: Seconds that the background took.
        size: Bytes on the disk.
    """

    plain: float
    extra: float
    work: float
    extra_work: float
    stall: float
    background: float
    size: int

    def shares(self, every: int) -> tuple[float, float]:
        """The part of the time, and of the processor time, that checkpoints take after every so many steps."""
        steps = every / (every + TAIL)
        return self.extra / (self.plain * steps), self.extra_work / (self.work * steps)


def main() -> None:
    """Parses the command line, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m tfdist.bench.saving", description="What checkpoints cost.")
    parser.add_argument("model", nargs="?", default="wide", help="mlp, cnn or wide")
    parser.add_argument("--every", type=int, default=50, help="steps between two")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-", dir=".") as folder:
        costs = []
        for cost in measure(options.model, options.every, options.pairs, Path(folder)):
            costs.append(cost)
            print("{:+.2%} of the time, {:+.2%} of the processor's: {}".format(*cost.shares(options.every), cost))
    print(_summary(options.model, options.every, costs), flush=True)


def measure(name: str, every: int, pairs: int, folder: Path) -> Iterator[Cost]:
    """One cost a pair, after a `fit` with checkpoints that is not counted.

    Args:
        name: The model's.
        every: Steps before the checkpoint.
        pairs: How many.
        folder: Where the checkpoints go.
    """
    import tensorflow as tf

    from tfdist import keras_repairs
    from tfdist.bench import models

    keras_repairs.install()
    model = models.build(name)
    data = tf.data.Dataset.from_tensor_slices(models.data(name, 8 * BATCH)).batch(BATCH, drop_remainder=True)
    data = data.cache().repeat()

    def fit(steps: int, *callbacks: keras.callbacks.Callback) -> np.ndarray:
        clock = _Clock()
        model.fit(data, steps_per_epoch=steps, verbose=0, shuffle=False, callbacks=[*callbacks, clock])
        return clock.ended - clock.begun

    saver = _Saver(folder, every, every + TAIL)
    fit(every + TAIL, saver.keeper)
    for _ in range(pairs):
        plain = fit(every + TAIL)
        before = saver.begin()
        extra = fit(every + TAIL, saver.keeper) - plain
        background = (saver.checkpoints.background_seconds - before) / 2
        times = (*plain.tolist(), *extra.tolist())
        yield Cost(times[0], times[2], times[1], times[3], saver.waits[0], background, saver.size)


class _Clock(keras.callbacks.Callback):
    """When the first step began and the last one ended: time, and the process's processor time."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.begun = np.array([time.perf_counter(), time.process_time()])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ended = np.array([time.perf_counter(), time.process_time()])


class _Saver:
    """Saves after so many steps, and at the end of the epoch; measures how long the training waits."""

    def __init__(self, folder: Path, every: int, steps: int) -> None:
        import tensorflow as tf

        from tfdist.checkpoint import Checkpoints, Policy, Retention, Summary
        from tfdist.training.keeper import Keeper

        strategy = tf.distribute.get_strategy()
        self.waits: list[float] = []
        self.folder = folder
        self.checkpoints = Checkpoints(folder, Retention(1), strategy)
        facts = Summary(0, 0, 0, 0, BATCH, steps * BATCH, 1, 1, 0.0)
        self.keeper = Keeper(self.checkpoints, Policy(every), facts, steps, dict, None, strategy, self._saving)

    def begin(self) -> float:
        """Forgets the waits; returns the seconds that the background has taken so far."""
        self.waits.clear()
        return self.checkpoints.background_seconds

    @property
    def size(self) -> int:
        """Bytes of the checkpoint that is kept."""
        return sum(file.stat().st_size for file in self.folder.glob("step-*/*"))

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.waits.append(time.perf_counter() - begun)


def _summary(name: str, every: int, costs: list[Cost]) -> str:
    share, work = (statistics.median(values) for values in zip(*(cost.shares(every) for cost in costs), strict=True))
    stall = statistics.median(cost.stall for cost in costs)
    background = statistics.median(cost.background for cost in costs)
    return (
        f"{name}, one device, a checkpoint of {costs[0].size / 1e6:.0f} MB every {every} steps: {share:+.2%} of the "
        f"time, {work:+.2%} of the processor's; for each the training waits {stall * 1e3:.0f} ms, and the background "
        f"takes {background * 1e3:.0f} ms. "
        f"Medians of {len(costs)} pairs."
    )


if __name__ == "__main__":
    main()
