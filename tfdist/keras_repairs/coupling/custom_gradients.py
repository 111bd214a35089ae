"""The user's `tf.custom_gradient`s, tried out: a gradient that couples rows, such as one that is clipped by its norm.

A replica has the gradients of its own rows alone. Where its code runs on the rows of all replicas, it has its part of
their gradients, and only what is linear in them can be summed afterwards. A limit that gradients reach late is found,
as those of the trial are large.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.util import tf_decorator

from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, current_step, is_one_of_several, replica_count
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, made_up
from tfdist.keras_repairs.coupling.trials.split_comparison import (
    PARTS,
    ROWS,
    comparable,
    is_of_own_rows,
    is_same,
    tolerance_in,
)
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial
from tfdist.keras_repairs.model_checks.refusals import coupling_in_a_gradient
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]
Upstream = Callable[[Any], Any]
"""Takes an output of a function and returns the gradient that it is given."""

_LIBRARIES = ("keras", "tensorflow", "tfdist")
_COUPLES: weakref.WeakKeyDictionary[Function, dict[str, bool]] = weakref.WeakKeyDictionary()
"""The results of trials, by the ways in which a function was called."""

_LARGEST = 1e6
"""What gradients of a trial are multiplied by: more than any that one clips."""


def custom_gradient(original: Function) -> Function:
    """Repairs the functions that call what was decorated with `tf.custom_gradient`, in graphs and eagerly."""

    def repaired(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        scope = REPLICA_SCOPE.get()
        is_gathered = scope.is_alone and not scope.is_tried_out and scope.global_batch_step is None
        is_looked_at = is_gathered or (current_step() is not None and is_one_of_several())
        if not is_looked_at or not _is_of_user(f) or replica_count() == 1:
            return original(f, args, kwargs)

        def with_checked_gradient(*args: Any, **kwargs: Any) -> Any:
            outputs, gradient = f(*args, **kwargs)

            def checked(*upstream: Any, **variables: Any) -> Any:
                if _couples(f, args, kwargs, is_gathered=is_gathered):
                    raise coupling_in_a_gradient(f)
                return gradient(*upstream, **variables)

            # TensorFlow asks a gradient whether it takes variables.
            return outputs, tf_decorator.make_decorator(gradient, checked)

        return original(tf_decorator.make_decorator(f, with_checked_gradient), args, kwargs)

    return repaired


def _is_of_user(f: Function) -> bool:
    package = (getattr(f, "__module__", None) or "").partition(".")[0]
    return package not in _LIBRARIES and settings_of(tf.distribute.get_strategy()).gather


def _couples(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_gathered: bool) -> bool:
    """Returns whether replicas cannot compute a gradient by parts; False where it cannot be tried out.

    Args:
        f: The function that was decorated.
        args: What it is called with, of which structure, shapes and dtypes count.
        kwargs: Likewise, by name.
        is_gathered: Whether it has the rows of all replicas, and part of their gradients.
    """
    # Of a method there is another object each time.
    known = _COUPLES.setdefault(f, {}) if hasattr(f, "__code__") and not hasattr(f, "__self__") else {}
    way = f"{is_gathered} {tf.nest.map_structure(_described, (args, kwargs))}"
    if way not in known:
        try:
            inputs = made_up((args, kwargs))
            trial = _is_linear if is_gathered else _is_of_parts
            known[way] = not in_trial(lambda: all(trial(f, inputs, scale) for scale in (1.0, _LARGEST)))
        except Exception:  # The user's code, on values that it may not be made for.
            known[way] = False
    return known[way]


def _described(leaf: Any) -> Any:
    return (leaf.dtype, leaf.shape[1:]) if tf.is_tensor(leaf) else leaf


def _is_of_parts(f: Function, inputs: Inputs, scale: float) -> bool:
    """Returns whether the gradients of a batch are those of its parts: joined by rows, or, of weights, summed."""

    def by_rows(part: slice) -> Upstream:
        def upstream(output: Any) -> Any:
            of_all = _noise(ROWS, output, scale)
            return of_all[part]

        return upstream

    whole = _gradients(f, inputs, slice(ROWS), by_rows(slice(ROWS)))
    parts = [_gradients(f, inputs, part, by_rows(part)) for part in PARTS]
    return all(_is_joined(*each) for each in zip(whole, *parts, strict=True))


def _is_joined(whole: NDArray, *parts: NDArray) -> bool:
    tolerance = tolerance_in([str(whole.dtype)])
    if all(part.shape == whole.shape for part in parts):
        return is_same(whole, parts[0] + parts[1], tolerance)
    return is_of_own_rows(whole, parts, tolerance)


def _is_linear(f: Function, inputs: Inputs, scale: float) -> bool:
    """Returns whether the gradients that parts of the upstream gradients give add up to those that all give."""

    def of_part(part: int) -> Upstream:
        return lambda output: _noise(output.shape[0], output, scale, seed=part)

    def of_all(output: Any) -> Any:
        return of_part(0)(output) + of_part(1)(output)

    whole, *parts = (_gradients(f, inputs, slice(ROWS), given) for given in (of_all, of_part(0), of_part(1)))
    return all(
        is_same(one, a + b, tolerance_in([str(one.dtype)])) for one, a, b in zip(whole, *parts, strict=True)
    )


def _noise(rows: int, output: Any, scale: float, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).normal(size=(rows, *output.shape[1:]))
    return tf.cast(numbers * min(scale, output.dtype.max**0.5), output.dtype)


def _gradients(f: Function, inputs: Inputs, part: slice, upstream: Upstream) -> Sequence[NDArray]:
    """The gradients by all floating tensors that a function is given, and by the variables that it reads.

    Raises:
        ValueError: An output has no rows.
    """
    args, kwargs = inputs.rows(part)
    sources = [leaf for leaf in tf.nest.flatten((args, kwargs)) if tf.is_tensor(leaf) and leaf.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = [leaf for leaf in tf.nest.flatten(tf.custom_gradient(f)(*args, **kwargs)) if leaf.dtype.is_floating]
    if any(not output.shape.rank for output in outputs):
        raise ValueError("An output has no rows")
    given = [upstream(output) for output in outputs]
    sources = [*sources, *tape.watched_variables()]
    zero = tf.UnconnectedGradients.ZERO
    return [comparable(tf.convert_to_tensor(one)) for one in tape.gradient(outputs, sources, given, zero)]
