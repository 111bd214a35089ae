"""Which kernels TensorFlow computes with on the CPU."""

from __future__ import annotations

from tensorflow.python.util import _pywrap_util_port


def uses_onednn() -> bool:
    """Whether operations on the CPU are those of oneDNN, as TF_ENABLE_ONEDNN_OPTS and the build decide."""
    return bool(_pywrap_util_port.IsMklEnabled())
