"""Loops and branches that the batch decides, in a replica's step: there the seeds of the replicas would part.

A `SeedGenerator` gives the next seed with every turn. As many turns as the batch has rows, as of `tf.map_fn`, are fewer
on every replica than on one device, and a branch may be taken on one replica and not on another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.keras_repairs.coupling.traced_calls import parts_of_call
from tfdist.keras_repairs.random_numbers.draw_scope import DRAW_SCOPE

Function = Callable[..., Any]

_OF_COND = ("true_fn", "false_fn", "strict", "name", "fn1", "fn2")
"""The arguments of `cond` after the first."""


def while_loop(original: Function) -> Function:
    """Repairs `tensorflow.python.ops.while_loop.while_loop`, on which `tf.map_fn` and the loops of Keras stand."""

    def repaired(cond: Function, body: Function, loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
        body = _as_part(body, parts_of_call("loop"), "turn")
        if current_step() is None or tf.executing_eagerly():
            return original(cond, body, loop_vars, *args, **kwargs)
        turns = [kwargs.get("maximum_iterations"), cond(*tf.nest.map_structure(_as_tensor, loop_vars))]
        return _decided(turns, "loop", lambda: original(cond, body, loop_vars, *args, **kwargs))

    return repaired


def cond(original: Function) -> Function:
    """Repairs `tensorflow.python.ops.cond.cond`."""

    def repaired(pred: Any, *args: Any, **kwargs: Any) -> Any:
        parts, named = parts_of_call("branch"), dict(zip(_OF_COND, args, strict=False)) | kwargs
        named.update({key: _as_part(named[key], parts, key) for key in _OF_COND[:2] if key in named})
        return _branching(pred, lambda: original(pred, **named))

    return repaired


def switch(original: Function) -> Function:
    """Repairs `control_flow_switch_case._indexed_case_helper` of TensorFlow, on which `tf.switch_case` stands."""

    def repaired(branches: Any, default: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        parts = parts_of_call("branch")
        # Given as a dict, as functions, or with a number each.
        given = branches.items() if isinstance(branches, Mapping) else enumerate(branches)
        pairs = [pair[1] if isinstance(pair[1], tuple) else pair for pair in given]
        chosen = [(number, _as_part(function, parts, number)) for number, function in pairs]
        default = _as_part(default, parts, "default")
        return _branching(index, lambda: original(chosen, default, index, *args, **kwargs))

    return repaired


def is_decided_by_batch() -> bool:
    """Returns whether the code that runs is inside of a loop or branch that the batch decides."""
    return bool(DRAW_SCOPE.get().decided_by)


def check_seed() -> None:
    """Raises where the next seed is taken inside of a loop or branch that the batch decides.

    Raises:
        UnsupportedError: It is.
    """
    kind = DRAW_SCOPE.get().decided_by
    if current_step() is None or not kind:
        return
    raise UnsupportedError(
        f"keras.random: a seed was taken from a SeedGenerator inside of a {kind} that the batch decides, as "
        "of tf.map_fn over its rows or tf.cond on their values. Each replica has other rows, so it would take other "
        "seeds than one device. Draw for all rows before it, noise = keras.random.normal((keras.ops.shape(x)[0], ...), "
        "seed=seed), and hand the function its row of them; or put the function into tfdist.gathered(function)."
    )


def _branching(chooses: Any, run: Callable[[], Any]) -> Any:
    return run() if current_step() is None or tf.executing_eagerly() else _decided([chooses], "branch", run)


def _as_part(function: Any, parts: Callable[[Any], contextlib.AbstractContextManager[None]], part: Any) -> Any:
    """`function`, of a loop or branch, whose draws are known as those of this part; see `parts_of_call`."""
    if not callable(function):
        return function

    def run(*args: Any, **kwargs: Any) -> Any:
        with parts(part):
            return function(*args, **kwargs)

    return run


def _decided(values: list[Any], kind: str, run: Callable[[], Any]) -> Any:
    if is_decided_by_batch() or not any(tf.is_tensor(value) and depends_on_batch(value) for value in values):
        return run()
    with changing(DRAW_SCOPE, decided_by=kind):
        return run()


def _as_tensor(leaf: Any) -> Any:
    return tf.convert_to_tensor(leaf) if isinstance(leaf, bool | int | float | np.ndarray | np.generic) else leaf
