"""Cost of checkpoints: `python -m benchmarks.checkpoint_cost [MODEL] [--every 50] [--window 10] [--pairs 40]`.

In one process on one device, within one `fit`, the few steps after each checkpoint are compared with as many after
them. What the first took longer is the cost, printed as a share of the steps between two checkpoints; whatever else the
machine does is in both. Choose a window several times as long as the background takes to write.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdist.text import format_bytes, format_duration

BATCH = 256


@dataclass(frozen=True)
class Cost:
    """Cost of one checkpoint, from one pair.

    Attributes:
        plain: Seconds of a step without a checkpoint.
        extra: Seconds that the steps after a checkpoint took longer, in all.
        work: Seconds of processor time of a plain step, in all threads.
        extra_work: Seconds of processor time that the steps after a checkpoint took more.
    """

    plain: float
    extra: float
    work: float
    extra_work: float

    def __str__(self) -> str:
        return (
            f"{self.extra:+.3f} s, a step {self.plain:.3f} s; "
            f"{self.extra_work:+.3f} s of the processor's, a step {self.work:.3f} s"
        )


def main() -> None:
    """Parses the command line, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint_cost", description="What checkpoints cost.")
    parser.add_argument("model", nargs="?", default="wide", help="mlp, cnn or wide")
    parser.add_argument("--every", type=int, default=50, help="steps between two checkpoints, of which it is a share")
    parser.add_argument("--window", type=int, default=10, help="steps that are compared with as many")
    parser.add_argument("--pairs", type=int, default=40, help="2 or more")
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error(f"--pairs: expected 2 or more, of which quartiles can be told. Received: {options.pairs}")
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-", dir=".") as folder:
        saver = _Saver(Path(folder), 2 * options.window, _steps(options.window, options.pairs))
        costs = measure(options.model, options.window, options.pairs, saver)
        for cost in costs:
            print(cost)
        print(_summary(options.model, options.every, costs, saver), flush=True)


def measure(name: str, window: int, pairs: int, saver: _Saver) -> list[Cost]:
    """One cost a pair, after one checkpoint that is not counted.

    Args:
        name: The model's.
        window: Steps that are compared with as many.
        pairs: How many.
        saver: Saves after every `2 * window` steps.
    """
    import tensorflow as tf

    from benchmarks import models
    from tfdist import keras_repairs

    keras_repairs.install()
    model = models.build(name)
    data = tf.data.Dataset.from_tensor_slices(models.data(name, 8 * BATCH)).batch(BATCH, drop_remainder=True)
    clock = _Clock()
    steps = _steps(window, pairs)
    model.fit(data.cache().repeat(), steps_per_epoch=steps, verbose=0, shuffle=False, callbacks=[saver.callback, clock])
    ends = np.array(clock.ends)
    costs = []
    for pair in range(1, pairs + 1):
        # The clock's callback comes after the saver's: a step's end is noted once its checkpoint is handed over.
        first = 2 * window * (pair + 1) - 2
        saved, plain = np.diff(ends[first : first + 2 * window + 1 : window], axis=0)
        extra, step = saved - plain, plain / window
        costs.append(Cost(step[0], extra[0], step[1], extra[1]))
    return costs


def _steps(window: int, pairs: int) -> int:
    """Those of the pairs, of one before that is not counted, and those before the first checkpoint."""
    return 2 * window * (pairs + 2)


class _Clock(keras.callbacks.Callback):
    """When each step ended: time, and the process's processor time."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[tuple[float, float]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))


class _Saver:
    """Saves after every so many steps; measures how long the training waits."""

    def __init__(self, folder: Path, every: int, steps: int) -> None:
        import tensorflow as tf

        from tfdist.checkpoint import CheckpointManager, CheckpointSummary, RetentionPolicy, SavePolicy
        from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback

        strategy = tf.distribute.get_strategy()
        self.waits: list[float] = []
        self.folder = folder
        self.checkpoints = CheckpointManager(folder, RetentionPolicy(1), strategy)
        facts = CheckpointSummary(0, 0, 0, 0, BATCH, steps * BATCH, 1, 1, 0.0)
        self.callback = CheckpointCallback(
            self.checkpoints, SavePolicy(every), facts, steps, dict, None, strategy, self._saving
        )

    @property
    def size(self) -> int:
        """Bytes of the checkpoint that is kept."""
        return sum(file.stat().st_size for file in self.folder.glob("step-*/*"))

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.waits.append(time.perf_counter() - begun)


def _summary(name: str, every: int, costs: list[Cost], saver: _Saver) -> str:
    shares = [cost.extra / (every * cost.plain) for cost in costs]
    low, middle, high = statistics.quantiles(shares, n=4)
    work = statistics.median(cost.extra_work / (every * cost.work) for cost in costs)
    wait = format_duration(statistics.median(saver.waits))
    background = format_duration(saver.checkpoints.background_seconds / len(saver.waits))
    return (
        f"{name}, one device, a checkpoint of {format_bytes(saver.size)} every {every} steps: "
        f"{middle:+.2%} of the time (a half of the pairs from {low:+.2%} to {high:+.2%}, mean "
        f"{statistics.mean(shares):+.2%} with a standard error of {_standard_error(shares):.2%}), "
        f"{work:+.2%} of the processor's; for each the training waits {wait}, and the background takes {background}. "
        f"Medians of {len(costs)} pairs."
    )


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


if __name__ == "__main__":
    main()
