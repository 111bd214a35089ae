"""Adopts scripts' device and thread settings, which come too late: warns that they are ignored, names the option."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_log = logging.getLogger("tfdist")

_OPTIONS = {
    "set_visible_devices": "use --devices",
    "set_logical_device_configuration": "use --logical-devices and --memory-limit",
    "experimental.set_virtual_device_configuration": "use --logical-devices and --memory-limit",
    "experimental.set_memory_growth": "tfdist already lets GPU memory grow",
    "threading.set_intra_op_parallelism_threads": "set TF_NUM_INTRAOP_THREADS in the environment",
    "threading.set_inter_op_parallelism_threads": "set TF_NUM_INTEROP_THREADS in the environment",
}


def adopt_settings() -> None:
    """Makes settings that TensorFlow refuses after it has started warn instead; they have no effect."""
    for path, option in _OPTIONS.items():
        owner, _, name = f"tf.config.{path}".rpartition(".")
        module = tf.config
        for part in owner.split(".")[2:]:
            module = getattr(module, part)
        setattr(module, name, _warning(getattr(module, name), f"tf.config.{path}", option))


def _warning(original: Callable[..., Any], path: str, option: str) -> Callable[..., Any]:
    def setting(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError:
            _log.warning("%s in the script is ignored: tfdist has set up the devices before it; %s.", path, option)
            return None

    return setting
