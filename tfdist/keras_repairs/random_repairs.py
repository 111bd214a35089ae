"""The part of the table of repairs that is about random numbers: Keras's, TensorFlow's, NumPy's and Python's."""

from __future__ import annotations

import functools

import tensorflow as tf
from keras.src import backend
from keras.src.backend import tensorflow as tensorflow_backend
from keras.src.backend.tensorflow import core
from keras.src.backend.tensorflow import random as random_module
from keras.src.random import seed_generator
from tensorflow.python.framework import random_seed
from tensorflow.python.ops import (
    cond,
    control_flow_switch_case,
    gen_random_ops,
    gen_stateless_random_ops,
    gen_stateless_random_ops_v2,
    while_loop,
)

from tfdist.keras_repairs.random_numbers import (
    draw_sizes,
    draws,
    generator_draws,
    python_draws,
    seeded_draws,
    seeds,
    stateless_draws,
    unseeded_draws,
)
from tfdist.keras_repairs.repair import Repair


def of_random_numbers(imposed_seed: int | None) -> tuple[Repair, ...]:
    """Repairs of what draws random numbers.

    Args:
        imposed_seed: TensorFlow's global seed where tfdist set it and the script did not.
    """
    return (*_of_keras_random(), *_of_tensorflow_random(imposed_seed))


def _of_keras_random() -> tuple[Repair, ...]:
    """Repairs of the functions of `keras.random`, of their seeds, and of the sizes that scripts give them."""
    of_shape = ("uniform", "normal", "truncated_normal", "randint", "gamma", "beta", "binomial")
    return (
        Repair(seed_generator.SeedGenerator, "next", seeds.next_seed),
        Repair(core, "shape", draw_sizes.shape, (backend, tensorflow_backend)),
        *(Repair(random_module, name, draws.of_shape) for name in of_shape),
        Repair(random_module, "dropout", draws.dropout),
        Repair(random_module, "categorical", draws.categorical),
        Repair(random_module, "shuffle", draws.shuffle),
    )


def _of_tensorflow_random(imposed_seed: int | None) -> tuple[Repair, ...]:
    """Repairs of the operations below `keras.random`, and of what else draws in TensorFlow."""
    get_seed = functools.partial(seeded_draws.get_seed, imposed_seed=imposed_seed)
    numbers = (
        "stateless_random_uniform_v2",
        "stateless_random_uniform_full_int_v2",
        "stateless_random_normal_v2",
    )
    with_parameters = (
        "stateless_random_binomial",
        "stateless_random_poisson",
        "stateless_parameterized_truncated_normal",
    )
    of_generators = ("normal", "truncated_normal", "uniform", "uniform_full_int")
    operations, older = gen_stateless_random_ops_v2, gen_stateless_random_ops
    return (
        Repair(random_seed, "get_seed", get_seed),
        *(Repair(tf.random.Generator, name, generator_draws.of_shape) for name in of_generators),
        Repair(tf.random.Generator, "_prepare_key_counter", generator_draws.prepare_key_counter),
        Repair(tf.random.Generator, "binomial", generator_draws.refused),
        Repair(while_loop, "while_loop", seeds.while_loop),
        Repair(cond, "cond", seeds.cond),
        Repair(control_flow_switch_case, "_indexed_case_helper", seeds.switch),
        *_of_unseeded_draws(),
        *(Repair(operations, name, stateless_draws.numbers) for name in numbers),
        Repair(operations, "stateless_truncated_normal_v2", stateless_draws.truncated_normal),
        Repair(operations, "stateless_random_uniform_int_v2", stateless_draws.integers),
        Repair(operations, "stateless_random_gamma_v3", stateless_draws.gamma),
        Repair(operations, "stateless_shuffle", stateless_draws.shuffle),
        *(Repair(older, name, stateless_draws.with_parameters) for name in with_parameters),
        Repair(older, "stateless_multinomial", stateless_draws.multinomial),
        *_of_python(),
    )


def _of_unseeded_draws() -> tuple[Repair, ...]:
    """Repairs of the operations below `tf.random.normal` and its kin, which keep a state of their own."""
    drawings = {
        "random_standard_normal": unseeded_draws.NORMAL,
        "truncated_normal": unseeded_draws.TRUNCATED_NORMAL,
        "random_uniform": unseeded_draws.UNIFORM,
        "random_uniform_int": unseeded_draws.INTEGERS,
        "random_gamma": unseeded_draws.GAMMA,
        "random_poisson_v2": unseeded_draws.POISSON,
        "multinomial": unseeded_draws.CATEGORICAL,
        "random_shuffle": unseeded_draws.SHUFFLE,
    }
    return tuple(
        Repair(gen_random_ops, name, functools.partial(unseeded_draws.unseeded, drawing_of=drawing))
        for name, drawing in drawings.items()
    )


def _of_python() -> tuple[Repair, ...]:
    """Repairs of the functions that draw from NumPy's and Python's generators."""
    watched = python_draws.watched
    return tuple(
        Repair(module, name, functools.partial(watched, name=f"{module.__name__}.{name}"), is_checked=False)
        for module, names in python_draws.NAMES.items()
        for name in names
    )
