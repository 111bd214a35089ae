"""Graphs as they are traced: to optimize those that run a dozen times takes half as long as to trace them."""

from __future__ import annotations

import os

import tensorflow as tf


def leave_graphs_plain() -> None:
    """Has TensorFlow optimize no graph from now on, but in the slow tests."""
    if not os.environ.get("TFDIST_SLOW_TESTS"):
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
