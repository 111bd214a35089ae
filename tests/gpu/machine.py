"""The GPUs of this machine, and what tests need of them."""

from __future__ import annotations

import functools

import pytest


@functools.cache
def gpu_count() -> int:
    """GPUs that TensorFlow sees; it is not started on them, as a process that is takes their memory."""
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU"))


def needs(gpus: int) -> pytest.MarkDecorator:
    """Skips what needs so many GPUs where there are fewer."""
    there = gpu_count()
    return pytest.mark.skipif(there < gpus, reason=f"needs {gpus} GPU(s), and TensorFlow sees {there} here")
