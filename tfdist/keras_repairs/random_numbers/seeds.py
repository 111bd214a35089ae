"""The seeds of random draws: the same on every replica in a step of Keras's, apart in a loop that a script writes.

In the steps of `fit`, `evaluate` and `predict` each replica draws its rows of one draw. Which rows a replica has is not
known in a loop that calls `strategy.run` itself: there each replica draws its own numbers, reproducibly from the seed.

A `SeedGenerator` gives the next seed with every turn. As many turns as the batch has rows, as of `tf.map_fn`, are fewer
on every replica than on one device, and a branch may be taken on one replica and not on another.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, is_one_of_several
from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.keras_repairs.coupling.batch_branches import check_branch, traced_loop
from tfdist.keras_repairs.coupling.gather_rows import dense_rows
from tfdist.keras_repairs.coupling.traced_calls import parts_of_call
from tfdist.keras_repairs.draw_slices.draw_scope import DRAW_SCOPE

_OF_COND = ("true_fn", "false_fn", "strict", "name", "fn1", "fn2")
"""The arguments of `cond` after the first."""


def while_loop(original: Function) -> Function:
    """Repairs `tensorflow.python.ops.while_loop.while_loop`, on which `tf.map_fn` and the loops of Keras stand."""

    def repaired(cond: Function, body: Function, loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
        most, body = kwargs.get("maximum_iterations"), _as_part(body, parts_of_call("loop"), "turn")

        def run(test: Function, body: Function) -> Any:
            return original(test, body, loop_vars, *args, **kwargs)

        if current_step() is None or tf.executing_eagerly():
            return traced_loop(run, cond, body, loop_vars, most)
        turns = [most, cond(*tf.nest.map_structure(_as_tensor, loop_vars))]
        return _decided(turns, "loop", lambda: traced_loop(run, cond, body, loop_vars, most))

    return repaired


def cond(original: Function) -> Function:
    """Repairs `tensorflow.python.ops.cond.cond`."""

    def repaired(pred: Any, *args: Any, **kwargs: Any) -> Any:
        parts, named = parts_of_call("branch"), dict(zip(_OF_COND, args, strict=False)) | kwargs
        check_branch(pred)
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
        check_branch(index)
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


Function = Callable[..., Any]

FAR_APART = 0x9E3779B9
"""2**32 divided by the golden ratio: multiples of it are far apart in all bits."""


def not_advancing() -> contextlib.AbstractContextManager[None]:
    """The code inside builds models from shapes alone: no seed follows on another.

    Keras would keep each as a tensor of the graph that drew it, which may be that of a loop, and hand it to the next
    draw outside of it.
    """
    return changing(DRAW_SCOPE, is_building=True)


def check_same_seeds(step: ReplicaStep) -> None:
    """Checks that all replicas have taken the same seeds in a step that has run eagerly; they call this together.

    In a graph the loops and branches show what they depend on; those of Python's do not.

    Raises:
        UnsupportedError: They have not.
    """
    taken = dense_rows(tf.constant([step.noted.seeds_taken], tf.int64)).numpy()
    if len(set(taken.tolist())) > 1:
        raise UnsupportedError(
            "keras.random, tf.random: the replicas have taken other seeds in a step that runs eagerly, so a loop or a "
            "branch in it depends on the samples, of which each replica has others. Draw for all rows before it, "
            "noise = keras.random.normal((keras.ops.shape(x)[0], ...), seed=seed), or put what decides and draws "
            "into tfdist.gathered(function)."
        )


def next_seed(original: Function) -> Function:
    """Repairs `keras.random.SeedGenerator.next`.

    The replicas' generators are copies of one, so that all replicas would drop the same units for the k-th of their
    samples. Each replica takes the seed that all share and makes one of its own from it.
    """

    def repaired(self: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        if DRAW_SCOPE.get().is_building:
            return self.state.value * 1
        check_seed()
        seed = original(self, *args, **kwargs)
        step = current_step()
        if step is not None and tf.executing_eagerly():
            step.noted.seeds_taken = zlib.crc32(self.state.path.encode(), step.noted.seeds_taken)
        if step is not None or not is_one_of_several():
            return seed
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.uint32)
        own = tf.bitwise.bitwise_xor(tf.cast(seed, tf.uint32), tf.stack([tf.zeros_like(replica), replica * FAR_APART]))
        return keras.ops.cast(own, seed.dtype)

    return repaired
