"""Tells which kernels TensorFlow computes with on the CPU."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port


def uses_onednn() -> bool:
    """Returns whether operations on the CPU are those of oneDNN, as TF_ENABLE_ONEDNN_OPTS and the build decide."""
    return bool(_pywrap_util_port.IsMklEnabled())


def replica_kernels() -> Literal["tensorflow", "onednn", ""]:
    """The kernels by which the replicas of this process compute, as `--kernels` calls them; empty on GPUs.

    Call it once the devices are chosen.
    """
    if tf.config.list_logical_devices("GPU"):
        return ""
    return "onednn" if uses_onednn() else "tensorflow"
