"""Collectives between workers, as a script calls them. The first call of any of them sets up this process.

All workers of a group call the same functions in the same order, in eager code or in a `tf.function`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives import json_objects
from tfdist.runtime.collectives.calls import Call, check_reduction
from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.handles import Handle
from tfdist.runtime.collectives.strategy_communicator import check_replicas, communicator_of
from tfdist.runtime.collectives.wire import groups
from tfdist.runtime.collectives.wire.groups import Group
from tfdist.training.session import current_session as session

__all__ = ["Group", "Handle"]


def group(workers: Iterable[int]) -> Group:
    """A part of the workers, for `group=` of the collectives.

    It exchanges nothing: workers that are not in it need not make it. A collective in a group is called by its workers
    alone. Groups may share workers, and be used in any order.

    Args:
        workers: Their indices.

    Returns:
        The group, with its workers' indices in ascending order as `group.workers`; `index in group` and `len(group)`.

    Raises:
        UsageError: It is empty, names a worker twice, or one that there is not.

    Example:
        ```python
        evens = tfdist.group(range(0, tfdist.num_workers(), 2))
        if tfdist.worker_index() in evens:
            total = tfdist.all_reduce(tf.ones([3]), group=evens)
        ```
    """
    return groups.make_group(workers, session.current().num_workers)


def barrier(*, group: Group | None = None, async_op: bool = False) -> Handle | None:
    """Returns when every worker has called it; after `--step-timeout` the job ends with an error.

    Args:
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Raises:
        UsageError: Another worker calls another collective, or this worker is not in the group.
    """
    handle: Handle | None = _communicator("barrier").barrier(group, async_op=async_op)
    return handle


def all_reduce(value: Any, op: str = "sum", *, group: Group | None = None, async_op: bool = False) -> Any:
    """Reduces a value over the workers; each gets the result, with the same bits.

    Args:
        value: A tensor, an array or a number, of one shape and dtype on all workers, or a nest (dicts, lists, tuples)
            of these. A list or tuple of numbers alone is one array.
        op: `"sum"`, `"mean"`, `"product"`, `"max"` or `"min"`. Tensors of bool have `"max"` (any) and `"min"` (all);
            those of integers no mean. Arrays reduce as numpy's do: sums of small integers are int64, means float64.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        The nest with a tensor for each tensor and an array for each array or number, of their shape. In a `tf.function`
        all are tensors. With `async_op` a handle, whose `wait()` returns that.

    Raises:
        UsageError: `op` or the value does not fit, another worker's call or value differs, or this worker is not in the
            group.
        UnsupportedError: A step of `strategy.run` calls it on one of several replicas of a worker.

    Sums and means have a gradient: that of the sum over all workers' losses, for which all of them call the tape on a
    loss that depends on the result.

    Example:
        ```python
        mean_loss = tfdist.all_reduce(loss, "mean")
        gradients = tfdist.all_reduce(tape.gradient(loss, model.trainable_variables))
        ```
    """
    call = Call("all_reduce", check_reduction(op, "all_reduce"))
    return _communicator("all_reduce").run(call, value, group, async_op=async_op)


def reduce(value: Any, root: int = 0, op: str = "sum", *, group: Group | None = None, async_op: bool = False) -> Any:
    """Reduces a value over the workers for one of them.

    Args:
        value: See `all_reduce`.
        root: The index of the worker that gets the result.
        op: See `all_reduce`.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        On worker `root` what `all_reduce` returns; None on the others.

    Raises:
        UsageError: `root` is not in the group; or see `all_reduce`.
    """
    call = Call("reduce", check_reduction(op, "reduce"), root)
    return _communicator("reduce").run(call, value, group, async_op=async_op)


def broadcast(value: Any, root: int = 0, *, group: Group | None = None, async_op: bool = False) -> Any:
    """The value of one worker, on every worker.

    Args:
        value: A tensor, an array, a number or a nest of these. Workers other than `root` give one of the same
            structure, shapes and dtypes, `tf.TensorSpec`s for its tensors, or in eager code None.
        root: The index of the worker whose value it is.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        The value of worker `root`: tensors for tensors and arrays for arrays or numbers.

    Raises:
        UsageError: `root` is not in the group; or see `all_reduce`.

    It has a gradient, which worker `root` gets; see `all_reduce`.

    Example:
        ```python
        order = tfdist.broadcast(np.random.permutation(100) if tfdist.is_chief() else None)
        ```
    """
    return _communicator("broadcast").run(Call("broadcast", root=root), value, group, async_op=async_op)


def scatter(value: Any, root: int = 0, *, group: Group | None = None, async_op: bool = False) -> Any:
    """Cuts the value of one worker along its first axis into equal parts, one for each worker.

    Args:
        value: See `broadcast`; the first axis of each tensor is a multiple of the workers.
        root: The index of the worker whose value it is.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        This worker's part: rows `[i * n, (i + 1) * n)` for the worker at place i of the group.

    Raises:
        UsageError: A first axis is no multiple; or see `broadcast`.
    """
    return _communicator("scatter").run(Call("scatter", root=root), value, group, async_op=async_op)


def gather(value: Any, root: int = 0, *, group: Group | None = None, async_op: bool = False) -> Any:
    """Collects a value of every worker on one of them.

    Args:
        value: See `all_gather`.
        root: The index of the worker that gets the result.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        On worker `root` what `all_gather` returns; None on the others.

    Raises:
        UsageError: `root` is not in the group; or see `all_gather`.
    """
    return _communicator("gather").run(Call("gather", root=root), value, group, async_op=async_op)


def all_gather(value: Any, *, group: Group | None = None, async_op: bool = False) -> Any:
    """Collects a value of every worker: shape `(workers, *value.shape)`, the same on every worker.

    Args:
        value: A tensor, an array of numbers or texts, a number, or a nest of these, of one structure, shape and dtype
            on all workers.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        The nest with a tensor or array `(workers, *shape)` for each, in the order of the workers; or a handle.

    Raises:
        UsageError: The value does not fit, another worker's call or value differs, or this worker is not in the group.
        UnsupportedError: See `all_reduce`.

    It has a gradient; see `all_reduce`.
    """
    return _communicator("all_gather").run(Call("all_gather"), value, group, async_op=async_op)


def reduce_scatter(value: Any, op: str = "sum", *, group: Group | None = None, async_op: bool = False) -> Any:
    """Reduces a value over the workers, and gives each a part of it, along its first axis.

    Args:
        value: See `all_reduce`; the first axis of each tensor is a multiple of the workers.
        op: See `all_reduce`.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        This worker's part: rows `[i * n, (i + 1) * n)` of the reduction for the worker at place i of the group.

    Raises:
        UsageError: A first axis is no multiple; or see `all_reduce`.

    Sums and means have a gradient; see `all_reduce`.
    """
    call = Call("reduce_scatter", check_reduction(op, "reduce_scatter"))
    return _communicator("reduce_scatter").run(call, value, group, async_op=async_op)


def all_to_all(value: Any, *, group: Group | None = None, async_op: bool = False) -> Any:
    """Sends each worker a part of this one's value, along its first axis, and collects those that are for this one.

    Args:
        value: See `all_gather`; the first axis of each tensor is a multiple of the workers.
        group: The workers that call it; None for all.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        A value of the same shapes: the part for this worker from each worker, in their order.

    Raises:
        UsageError: A first axis is no multiple; or see `all_gather`.

    It has a gradient; see `all_reduce`.
    """
    return _communicator("all_to_all").run(Call("all_to_all"), value, group, async_op=async_op)


def send(value: Any, to: int, *, async_op: bool = False) -> Handle | None:
    """Sends a value to one worker, which calls `recv`; nobody else takes part. Returns once it has arrived.

    Args:
        value: A tensor, an array, a number or a nest of these.
        to: The index of the worker that receives it.
        async_op: Whether to return a handle at once, in eager code.

    Raises:
        UsageError: There is no worker `to`, or it is this one; or it expects another value.
    """
    found = _communicator("send").send(value, to, async_op=async_op)
    return found if async_op else None


def recv(source: int, like: Any = None, *, async_op: bool = False) -> Any:
    """Receives the value that a worker sends to this one.

    Args:
        source: The index of the worker that sends it.
        like: A value of the same structure, shapes and dtypes, or `tf.TensorSpec`s for its tensors; None for whatever
            comes, in eager code.
        async_op: Whether to return a handle at once, in eager code.

    Returns:
        The value, of tensors for tensors and arrays for arrays or numbers; or a handle.

    Raises:
        UsageError: There is no worker `source`, or it is this one; or it sends something else than `like`.
    """
    return _communicator("recv").receive(source, like, async_op=async_op)


def all_gather_object(value: Any, *, group: Group | None = None) -> list[Any]:
    """Collects an object of every worker, in eager code; they may differ in everything.

    Args:
        value: None, a boolean, number or text, or lists and dicts of these, with texts as keys. Tuples become lists.
        group: The workers that call it; None for all.

    Returns:
        The objects in the order of the workers, the same on every worker. They travel as JSON: no code is run by
        reading them.

    Raises:
        UsageError: The object is of another kind, another worker calls another collective, or this worker is not in the
            group.
    """
    content = json_objects.encoded(value, "all_gather_object")
    said = _communicator("all_gather_object").exchange_bytes("all_gather_object", content, group)
    return [json_objects.decoded(text) for text in said]


def broadcast_object(value: Any = None, root: int = 0, *, group: Group | None = None) -> Any:
    """The object of one worker, on every worker, in eager code.

    Args:
        value: Of worker `root`; see `all_gather_object`. What the others give is not looked at.
        root: The index of the worker whose object it is.
        group: The workers that call it; None for all.

    Raises:
        UsageError: `root` is not in the group; or see `all_gather_object`.
    """
    communicator = _communicator("broadcast_object")
    found = groups.check_root("root", root, communicator.everyone if group is None else group, "broadcast_object")
    is_root = communicator.worker == found
    content = json_objects.encoded(value, "broadcast_object") if is_root else b""
    said = communicator.exchange_bytes(f"broadcast_object from worker {found}", content, group, root=found)
    chosen = communicator.everyone if group is None else group
    return json_objects.decoded(said[chosen.workers.index(found)])


def _communicator(call: str) -> Communicator:
    strategy = session.current().strategy
    check_replicas(strategy, call)
    if not tf.executing_eagerly() and not isinstance(tf.compat.v1.get_default_graph(), _FUNCTION_GRAPH):
        raise UsageError(
            f"tfdist.{call} runs in eager code or in a tf.function. Received: a call in a tf.compat.v1.Graph."
        )
    return communicator_of(strategy)


_FUNCTION_GRAPH = tf.__internal__.FuncGraph
