"""The GPUs of this machine, and what tests need of them."""

from __future__ import annotations

import functools

import pytest

from tfdist.launch.environment import read_gpu_emulation


@functools.cache
def gpu_count() -> int:
    """GPUs that TensorFlow sees, or that are emulated; it is not started on them, as that would take their memory."""
    import tensorflow as tf

    # Emulated, these tests can be tried on a machine without GPUs, as far as they do not look at the devices.
    return len(tf.config.list_physical_devices("GPU")) or read_gpu_emulation().count or 0


def needs(gpus: int) -> pytest.MarkDecorator:
    """Skips what needs so many GPUs where there are fewer."""
    there = gpu_count()
    return pytest.mark.skipif(there < gpus, reason=f"needs {gpus} GPU(s), and TensorFlow sees {there} here")
