"""Draws of `tf.random.normal` and its kin in a replica's step: without a seed here, with one in `seeded_draws`.

Their operations keep a state of their own, and no particular numbers are expected of them. What has a row for each
sample, each replica draws by itself. What has not is the same on all replicas, as there is one of it on one device: of
noise that is added to a gradient, the mean over replicas that each drew their own would be smaller. It is drawn with
the function of `tf.random.stateless_*` from a seed that the replicas share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src import backend

from tfdist.keras_repairs.base import tensorflow_seeds
from tfdist.keras_repairs.base.replica_step import (
    ReplicaStep,
    current_step,
    is_alone,
    is_of_own_loop,
    replica_id,
)
from tfdist.keras_repairs.coupling.traced_calls import is_noting
from tfdist.keras_repairs.draw_slices import draw_scope
from tfdist.keras_repairs.draw_slices.draw_slice import Size, as_shape
from tfdist.keras_repairs.random_numbers import seeded_draws
from tfdist.keras_repairs.random_numbers.draw_sizes import has_row_for_each_sample, note_rows_of_draw, sizes_of
from tfdist.keras_repairs.random_numbers.seeds import FAR_APART, is_decided_by_batch
from tfdist.keras_repairs.random_numbers.stateless_draws import drawing

Function = Callable[..., Any]

_OF_TENSORFLOW = "tf.random"
_SEEDS = 2**31 - 1


@dataclass(frozen=True)
class Drawing:
    """The way in which an operation of `tf.random` draws.

    Attributes:
        sizes: Those of what it draws, as far as one of them may be that of the batch; takes its arguments.
        stateless: Draws the same way from a seed; takes the seed and its arguments.
        tried: Gives what stands for a draw where code is tried out, the same for a row in a batch and in a part of it;
            takes the operation and its arguments.
        seeded: Draws as one device does with the seeds of a script; takes a stream and its arguments. None: not known.
    """

    sizes: Callable[..., Sequence[Size]]
    stateless: Callable[..., tf.Tensor]
    tried: Callable[..., tf.Tensor]
    seeded: Callable[..., tf.Tensor] | None = None


def unseeded(original: Function, drawing_of: Drawing) -> Function:
    """Repairs an operation of `tf.random`."""

    def repaired(*args: Any, seed: Any = 0, seed2: Any = 0, name: Any = None, **kwargs: Any) -> tf.Tensor:
        if draw_scope.replaces_draws():
            return drawing_of.tried(_repeated(drawing_of) if is_of_own_loop() else original, *args, **kwargs)
        if isinstance(seed2, seeded_draws.SeedOfScript):
            return _drawn_with_seed(drawing_of, original.__name__, seed, seed2)(*args, **kwargs)
        if is_noting():
            note_rows_of_draw(drawing_of.sizes(*args, **kwargs))
        seeds, step = tensorflow_seeds.seeds_of_replica(), current_step()
        if seeds is None or is_noting() or (step is None and not is_alone()):
            return original(*args, seed=seed, seed2=seed2, name=name, **kwargs)
        if step is not None and _is_of_samples(drawing_of.sizes(*args, **kwargs), step):
            step.noted.draws_own = True
            return original(*args, seed=seed, seed2=_own(seed2), name=name, **kwargs)
        with drawing(None):
            return drawing_of.stateless(seeds.next(), *args, **kwargs)

    return repaired


def _repeated(drawing_of: Drawing) -> Callable[..., tf.Tensor]:
    """The same draws each time that a loop is tried out: TensorFlow's operations go on from those before."""
    log = draw_scope.DRAW_SCOPE.get().recorded
    return functools.partial(drawing_of.stateless, [0 if log is None else len(log.draws), 0])


def _drawn_with_seed(drawing_of: Drawing, name: str, seed: int, seed2: int) -> Callable[..., tf.Tensor]:
    """Draws as one device does with a script's seeds.

    Raises:
        UnsupportedError: It is not known how.
    """
    if drawing_of.seeded is None:
        raise seeded_draws.unknown(f"as {name}")
    return functools.partial(drawing_of.seeded, seeded_draws.stream_of(seed, seed2))


def _is_of_samples(sizes: Sequence[Size], step: ReplicaStep) -> bool:
    """Returns whether a replica draws by itself: also in a turn of a loop over the rows, and in a branch that they
    choose."""
    return has_row_for_each_sample(sizes, step, _OF_TENSORFLOW) or is_decided_by_batch()


def _own(seed: int | None) -> int:
    replica: Any = tf.get_static_value(replica_id())
    return ((seed or 0) + FAR_APART * (1 + (0 if replica is None else int(replica)))) % _SEEDS


def _one_number(original: Function, shape: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    """A draw whose numbers are all the same, recorded on the batch and replayed on its parts."""
    one = draw_scope.replayed([])
    if one is None:
        one = draw_scope.record(original(tf.constant([], tf.int32), *args, **kwargs))
    return tf.fill(shape, one)


def _of_shape(shape: Any, *_: Any, **__: Any) -> Sequence[Size]:
    return sizes_of(shape)


def _of_shape_and_parameter(shape: Any, parameter: Any, **_: Any) -> Sequence[Size]:
    return [*sizes_of(shape), *backend.shape(tf.convert_to_tensor(parameter))]


def _of_rows(rows: Any, *_: Any, **__: Any) -> Sequence[Size]:
    return list(backend.shape(rows))[:1]


def _joined(shape: Any, parameter: Any) -> tf.Tensor:
    return as_shape(list(_of_shape_and_parameter(shape, parameter)))


def _choices(_: Any, logits: Any, num_samples: Any, output_dtype: Any = tf.int64) -> tf.Tensor:
    return tf.repeat(tf.argmax(logits, axis=-1, output_type=output_dtype)[:, tf.newaxis], num_samples, axis=1)


NORMAL = Drawing(
    _of_shape,
    lambda seed, shape, dtype: tf.random.stateless_normal(shape, seed, dtype=dtype),
    _one_number,
    seeded_draws.normal,
)
TRUNCATED_NORMAL = Drawing(
    _of_shape,
    lambda seed, shape, dtype: tf.random.stateless_truncated_normal(shape, seed, dtype=dtype),
    _one_number,
    seeded_draws.truncated_normal,
)
UNIFORM = Drawing(
    _of_shape,
    lambda seed, shape, dtype: tf.random.stateless_uniform(shape, seed, dtype=dtype),
    _one_number,
    seeded_draws.uniform,
)
INTEGERS = Drawing(
    _of_shape,
    lambda seed, shape, minval, maxval: tf.random.stateless_uniform(shape, seed, minval, maxval, minval.dtype),
    _one_number,
    seeded_draws.integers,
)
GAMMA = Drawing(
    _of_shape_and_parameter,
    lambda seed, shape, alpha: tf.random.stateless_gamma(_joined(shape, alpha), seed, alpha, dtype=alpha.dtype),
    lambda _, shape, alpha: tf.broadcast_to(alpha, _joined(shape, alpha)),
    seeded_draws.gamma,
)
POISSON = Drawing(
    _of_shape_and_parameter,
    lambda seed, shape, rate, dtype: tf.random.stateless_poisson(_joined(shape, rate), seed, rate, dtype),
    lambda _, shape, rate, dtype: tf.cast(tf.broadcast_to(rate, _joined(shape, rate)), dtype),
)
CATEGORICAL = Drawing(
    _of_rows,
    lambda seed, logits, num_samples, output_dtype: tf.random.stateless_categorical(
        logits, num_samples, seed, output_dtype
    ),
    _choices,
)
SHUFFLE = Drawing(
    _of_rows,
    # Without a gradient, as TensorFlow has it.
    lambda seed, value: tf.stop_gradient(tf.random.experimental.stateless_shuffle(tf.stop_gradient(value), seed)),
    # What shuffling does, another order, with one that is always the same.
    lambda _, value: tf.reverse(value, [0]),
    seeded_draws.shuffle,
)
