"""Refuses, of several workers, that a script switches eager execution off, as sessions of TensorFlow 1 then do.

What all workers agree on, and what they wait for, is computed eagerly. A graph of TensorFlow 1 that a script makes with
`tf.Graph()` and runs in a session is left alone: it is of one worker.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from tfdist.errors import UnsupportedError

_SWITCHES = ("disable_eager_execution", "disable_v2_behavior")


def keep_eager(workers: int) -> None:
    """Makes the switches of TensorFlow 1 raise `UnsupportedError` on several workers."""
    if workers == 1:
        return
    for module in ("tensorflow._api.v2.compat.v1", "tensorflow.compat.v1"):
        for name in _SWITCHES:
            setattr(importlib.import_module(module), name, _refusing(name))


def _refusing(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            f"The script calls tf.compat.v1.{name}(), and this run has several workers, which exchange eagerly. "
            "Expected TensorFlow 2, or a graph of its own: with tf.Graph().as_default(), which each worker runs for "
            "itself. Received: a switch for the whole process. Leave it out, or start one worker (--nproc 1)."
        )

    return refuse
