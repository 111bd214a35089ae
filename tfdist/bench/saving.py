"""What checkpoints cost: `python -m tfdist.bench.saving [MODEL] [--every 50] [--saves 2] [--pairs 5]`.

In one process on one device, in turn: `fit` without checkpoints, and the same with one after every so many steps, until
the last one is on the disk.
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

BATCH = 256


@dataclass(frozen=True)
class Cost:
    """Of one pair.

    Attributes:
        plain: Seconds without checkpoints.
        saving: Seconds with them.
        stalls: Seconds that the training stood still, one number a checkpoint.
        background: Seconds that the background took, for each on the average.
        size: Bytes of one on the disk.
    """

    plain: float
    saving: float
    stalls: tuple[float, ...]
    background: float
    size: int


def main() -> None:
    """Parses the command line, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m tfdist.bench.saving", description="What checkpoints cost.")
    parser.add_argument("model", nargs="?", default="wide", help="mlp, cnn or wide")
    parser.add_argument("--every", type=int, default=50, help="steps between two")
    parser.add_argument("--saves", type=int, default=2, help="checkpoints in each fit")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-", dir=".") as folder:
        costs = []
        for cost in measure(options.model, options.every, options.saves, options.pairs, Path(folder)):
            costs.append(cost)
            print(f"{cost.saving / cost.plain - 1:+.2%} of {cost.plain:.1f} s", flush=True)
    print(_summary(options.model, options.every, costs), flush=True)


def measure(name: str, every: int, saves: int, pairs: int, folder: Path) -> Iterator[Cost]:
    """One cost a pair, after one `fit` of each kind that is not counted.

    Args:
        name: The model's.
        every: Steps between two checkpoints.
        saves: Checkpoints in each `fit`.
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

    def fit(steps: int, *callbacks: object) -> float:
        begun = time.perf_counter()
        model.fit(data, steps_per_epoch=steps, epochs=saves, verbose=0, shuffle=False, callbacks=list(callbacks))
        return time.perf_counter() - begun

    fit(2, _Saver(folder / "first", 2).keeper)
    for number in range(pairs):
        plain = fit(every)
        saver = _Saver(folder / str(number), every)
        saving = fit(every, saver.keeper)
        yield Cost(plain, saving, tuple(saver.waits[:saves]), saver.checkpoints.background_seconds / saves, saver.size)


class _Saver:
    """Saves at the end of every epoch, and measures how long the training waits."""

    def __init__(self, folder: Path, steps: int) -> None:
        import tensorflow as tf

        from tfdist.checkpoint import Checkpoints, Policy, Retention, Summary
        from tfdist.training.keeper import Keeper

        strategy = tf.distribute.get_strategy()
        self.waits: list[float] = []
        self.folder = folder
        self.checkpoints = Checkpoints(folder, Retention(1), strategy)
        facts = Summary(0, 0, 0, 0, BATCH, steps * BATCH, 1, 1, 0.0)
        self.keeper = Keeper(self.checkpoints, Policy(), facts, steps, dict, None, strategy, self._saving)

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
    share = statistics.median(cost.saving / cost.plain - 1 for cost in costs)
    stall = statistics.median(stall for cost in costs for stall in cost.stalls)
    background = statistics.median(cost.background for cost in costs)
    return (
        f"{name}, one device, a checkpoint of {costs[0].size / 1e6:.0f} MB every {every} steps: {share:+.2%} of the "
        f"time; for each the training waits {stall * 1e3:.0f} ms, and the background takes {background * 1e3:.0f} ms. "
        f"Medians of {len(costs)} pairs."
    )


if __name__ == "__main__":
    main()
