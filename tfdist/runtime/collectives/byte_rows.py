"""Rows of bytes: every worker of a lane hears what each of them says, in a few sizes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfdist.runtime.collectives.wire.engine import CollectiveEngine
from tfdist.runtime.collectives.wire.lanes import Lane

_LEAST_STEP = 256


def padded_size(size: int) -> int:
    """The bytes that are sent for `size` of them: up to a quarter more.

    TensorFlow keeps memory for every size of an eager collective.
    """
    step = max(_LEAST_STEP, 1 << max(size.bit_length() - 3, 0))
    return -(-size // step) * step


def gather_rows(content: bytes, size: int, lane: Lane, engine: CollectiveEngine) -> list[bytes]:
    """Returns what all workers say, each padded with zeros to `size`, a multiple of 4. All call it with one `size`."""
    own = np.frombuffer(content.ljust(size, b"\0"), np.int32)
    said = engine.all_gather(tf.constant(own), lane.eager_channel(("rows", size))).numpy().tobytes()
    return [said[start : start + size] for start in range(0, len(said), size)]
