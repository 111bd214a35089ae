"""Runs a module or a script, with every weight cut that has two elements: `cut_weights MODULE ...` or `FILE.py ...`.

With `--unsummed` before it the gradients of cut weights are not summed, with `--apart` not between groups of workers:
the repair that a test takes out.

Weights of the models of tests are smaller than those that `--shard zero3` cuts, and than those whose update by Adam is
compiled: here it is for all of them.
"""

import dataclasses
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from tfdist.keras_repairs.optimizer import variable_updates
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import shard_collectives, shard_groups
from tfdist.runtime.workers import worker_rank
from tfdist.sharding.cut import Cut


def own_parts(gradients: Sequence[tf.Tensor], cuts: Sequence[Cut]) -> list[tf.Tensor]:
    """Stands for `reduce_scatter_gradients`, and sums nothing."""
    worker = worker_rank(tf.distribute.get_strategy())
    return [shard_collectives.cut_shard(gradient, cut, worker) for gradient, cut in zip(gradients, cuts, strict=True)]


def cut_all() -> None:
    """Has all weights cut that are made from now on, where each worker is to hold parts of them."""
    settings = settings_of(tf.distribute.get_strategy())
    if settings.shard is not None:
        settings.shard = dataclasses.replace(settings.shard, whole_below=2)
        variable_updates._COMPILED_FROM = 2


def main() -> None:
    cut_all()
    if sys.argv[1] == "--unsummed":
        shard_collectives.reduce_scatter_gradients = own_parts
        del sys.argv[1]
    elif sys.argv[1] == "--apart":
        shard_groups.sum_between_groups = lambda parts, *_: list(parts)
        del sys.argv[1]
    del sys.argv[0]
    if sys.argv[0].endswith(".py"):
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
