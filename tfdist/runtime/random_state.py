"""The random states of a process outside of models: Python's, NumPy's and TensorFlow's, as one array of fixed size.

They are those of Python's `random`, of NumPy's global generator, of the generator that seeds NumPy's generators (where
tfdist set it), of the one from which TensorFlow seeds its operations, and of TensorFlow's global generator. States
inside of compiled functions (`tf.random.uniform` in a layer) cannot be read.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops

from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.workers import worker_count, worker_rank


@dataclass
class RunSeed:
    """The seed of a process's run.

    Attributes:
        value: The run's seed once there is a session; 0 outside of a run.
    """

    value: int = 0


run_seed = RunSeed()
"""That of this process: a process has one run, but a script may make several strategies."""


_WORDS = 625
"""Words of a Mersenne Twister: its key and the place in it."""

_SIZE = _WORDS + 3
"""The same with the second of a pair of normally distributed numbers: whether there is one, and its two words."""


_GENERATOR_SIZE = 6
"""Words of TensorFlow's global generator: three int64."""


def read(strategy: tf.distribute.Strategy) -> NDArray[np.uint32]:
    """The states of all workers, which call this together: uint32 [workers, n], or [1, n] where all are the same."""
    rows = all_gather(read_own(strategy), strategy)
    return rows[:1] if (rows == rows[0]).all() else rows


def write(states: NDArray[np.uint32], strategy: tf.distribute.Strategy) -> None:
    """Restores what `read` returned: this worker's own state, or the chief's if the number of workers has changed."""
    rank = worker_rank(strategy)
    write_own(states[rank if len(states) == worker_count(strategy) else 0])


def read_own(strategy: tf.distribute.Strategy) -> NDArray[np.uint32]:
    """The states of this worker alone: uint32 [n], with the same n on all workers."""
    return np.concatenate([*_read_twisters(), _read_generator(strategy)])


def write_own(row: NDArray[np.uint32]) -> None:
    """Restores what `read_own` returned, here or on another worker."""
    numpys, *others = row[:-_GENERATOR_SIZE].reshape(-1, _SIZE)
    for generator, state in zip(_python_generators(), others, strict=True):
        if generator is not None and state.any():
            generator.setstate((3, tuple(map(int, state[:_WORDS])), _left(state)))
    left = _left(numpys)
    np.random.set_state(
        ("MT19937", numpys[: _WORDS - 1], int(numpys[_WORDS - 1]), int(left is not None), 0.0 if left is None else left)
    )
    words = row[-_GENERATOR_SIZE:]
    if words.any():
        tf.random.get_global_generator().state.assign(words.view(np.int64))


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Restores what the code inside draws from the generators of Python and NumPy, and the seeds of TensorFlow's."""
    numpys = np.random.get_state()
    others = [(generator, generator.getstate()) for generator in _python_generators() if generator is not None]
    try:
        yield
    finally:
        np.random.set_state(numpys)
        for generator, state in others:
            generator.setstate(state)


def global_generators() -> list[tf.random.Generator]:
    """TensorFlow's global generator, where there is one: to ask TensorFlow for it makes one."""
    generator = getattr(stateful_random_ops, "global_generator", None)
    return [] if generator is None else [generator]


def _python_generators() -> tuple[Any, ...]:
    """Python's own, the one that seeds NumPy's generators, and the one that seeds TensorFlow's operations.

    The second is there where tfdist seeds what is unseeded, the third where TensorFlow has a global seed.
    """
    seeds = getattr(np.random.bit_generator.randbits, "__self__", None)  # type: ignore[attr-defined]
    if isinstance(seeds, random.SystemRandom) or not isinstance(seeds, random.Random):
        seeds = None
    # TensorFlow has no public name for it.
    return random, seeds, getattr(context.context(), "_rng", None)


def _read_twisters() -> Iterator[NDArray[np.uint32]]:
    state: Any = np.random.get_state()
    _, key, place, has_left, left = state
    yield _packed([*key, place], left if has_left else None)
    for generator in _python_generators():
        if generator is None:
            yield np.zeros(_SIZE, np.uint32)
        else:
            _, words, rest = generator.getstate()
            yield _packed(words, rest)


def _packed(words: Any, left: float | None) -> NDArray[np.uint32]:
    rest = np.array([0.0 if left is None else left]).view(np.uint32)
    return np.array([*words, left is not None, *rest], np.uint32)


def _left(state: NDArray[np.uint32]) -> float | None:
    has_left, *_ = state[_WORDS:]
    return float(state[_WORDS + 1 :].copy().view(np.float64)[0]) if has_left else None


def _read_generator(strategy: tf.distribute.Strategy) -> NDArray[np.uint32]:
    """The global generator's state; zeros where it is not used, or each replica has its own."""
    # `get_global_generator` would make one, and not the same on all workers.
    generator = stateful_random_ops.global_generator
    if generator is not None and len(strategy.experimental_local_results(generator.state)) == 1:
        words = np.ascontiguousarray(generator.state.numpy()).view(np.uint32)
        if words.size == _GENERATOR_SIZE:
            return words
    return np.zeros(_GENERATOR_SIZE, np.uint32)
