from __future__ import annotations

import tensorflow as tf

from tfdist.runtime.collectives.wire.groups import Lane


def lane() -> Lane:
    return Lane((0, 2), 2, 7)


def test_a_key_stands_for_what_is_carried() -> None:
    """Whenever it was first used, for traced calls; whether the size is known while they are traced or not."""
    one, two = lane(), lane()
    two.traced_channel("all_gather int64", 5)
    keys = [one.traced_channel(kind, size).key for kind in ("all_gather int32", "broadcast int32") for size in (3, 4)]
    assert len(set(keys)) == 4
    assert keys[0] == two.traced_channel("all_gather int32", 3).key
    for size in (3, 2**31 + 5):
        known = one.traced_channel("all_gather int32", size).key
        unknown = one.traced_channel("all_gather int32", tf.constant(size, tf.int64)).key
        assert (int(unknown), unknown.dtype) == (known, tf.int32)
        assert 2**30 <= known < 2**31


def test_eager_keys_count_what_is_carried() -> None:
    own = lane()
    assert [own.eager_channel(carried).key for carried in ("a", "b", "a")] == [1, 2, 1]
    assert own.eager_channel("a").place == 1
