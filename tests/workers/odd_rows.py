"""Rows of a selftest that go wrong on several replicas, run as `tfdist.selftest.matrix` is."""

from __future__ import annotations

import os
import signal
import sys

import keras

from tfdist.selftest.matrix.row_runner import RowContext, run_rows
from tfdist.selftest.matrix.training_rows import classifier, numbers, train
from tfdist.training import api


def right(context: RowContext) -> None:
    train(context, classifier(), *numbers(), keras.optimizers.SGD(0.1), epochs=1)


def wrong(context: RowContext) -> None:
    """Its learning rate depends on the number of replicas."""
    train(context, classifier(), *numbers(), keras.optimizers.SGD(0.1 * api.num_replicas()), epochs=1)


def dying(context: RowContext) -> None:
    """Dies where there are several replicas."""
    if api.num_replicas() > 1 and api.is_chief():
        os.kill(os.getpid(), signal.SIGKILL)
    right(context)


if __name__ == "__main__":
    run_rows({row.__name__: row for row in (right, wrong, dying)}, sys.argv[1])
