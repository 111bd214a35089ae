"""The communicator: a worker's collectives with the others of its strategy, on values of any kind."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.agreement import ROOM, agree_in_graph, check_cuts_in_graph, meet, padded_size
from tfdist.runtime.collectives.calls import Call, with_gradient
from tfdist.runtime.collectives.contracts import contract_of, values_like
from tfdist.runtime.collectives.handles import Handle, finished
from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.collectives.values import Leaf, Values, accumulated, values_of
from tfdist.runtime.collectives.wire import groups, placement
from tfdist.runtime.collectives.wire.engine import Channel, CollectiveEngine
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.collectives.wire.groups import Group, Lane, Lanes
from tfdist.runtime.collectives.wire.known_rows import KnownRows
from tfdist.runtime.collectives.wire.transfers import flats_of, transfer
from tfdist.runtime.collectives.wire.wire_dtypes import LARGEST_WORD, check_reducible
from tfdist.runtime.workers import local_variables
from tfdist.text import safe_repr

Noted = Callable[[], contextlib.AbstractContextManager[Any]]


class Communicator:
    """One worker's end of all collectives.

    Args:
        worker: Its index.
        workers: How many there are.
        engine: What carries tensors between them.
        noted: Around each exchange in eager code, in whatever thread.
        waiting: Around what the main thread waits for.
        progress: Returns what counts traced calls; None where nobody watches.
        between_devices: What carries tensors between the workers' devices, in one order; None where all go by `engine`.
    """

    def __init__(
        self,
        worker: int,
        workers: int,
        engine: CollectiveEngine,
        noted: Noted = contextlib.nullcontext,
        waiting: Noted = contextlib.nullcontext,
        progress: Callable[[], TracedProgress | None] = lambda: None,
        between_devices: TensorFlowEngine | None = None,
    ) -> None:
        self.worker = worker
        self.everyone = Group(tuple(range(workers)))
        self._engine = engine
        self._noted = noted
        self._waiting = waiting
        self._progress = progress
        self._between_devices = between_devices
        self._lanes = Lanes(worker, workers)

    def run(self, call: Call, value: Any, group: Group | None = None, *, async_op: bool = False) -> Any:
        """Runs a collective.

        Args:
            call: What.
            value: A tensor, an array, a number or a nest of these; None where the worker gives nothing.
            group: Its workers; None for all.
            async_op: Whether to return a `Handle` at once.

        Returns:
            The result in the nest of the value, or a handle for it; None on workers that get nothing.

        Raises:
            UsageError: The value or the call does not fit, or those of other workers differ.
        """
        chosen = self._checked_group(call, group)
        return self._run(call, value, self._lanes.of(chosen.workers), async_op)

    def send(self, value: Any, to: int, *, async_op: bool = False) -> Any:
        """Sends a value to one worker, which receives it. See `run`."""
        call = Call("send", root=self.worker)
        lane = self._lanes.between(self.worker, self._checked_peer("to", to, "send"))
        return self._run(call, value, lane, async_op)

    def receive(self, source: int, like: Any, *, async_op: bool = False) -> Any:
        """Receives a value of one worker, of the structure of `like` where that is not None. See `run`."""
        lane = self._lanes.between(self._checked_peer("source", source, "recv"), self.worker)
        return self._run(Call("send", root=source), like, lane, async_op)

    def barrier(self, group: Group | None = None, *, async_op: bool = False) -> Any:
        """Returns once all workers of a group have called it."""
        chosen = self._checked_group("barrier", group)
        lane = self._lanes.of(chosen.workers)
        if not tf.executing_eagerly():
            if len(lane.workers) > 1:
                agree_in_graph(contract_of("barrier", None), (), [], lane, self._engine, self._progress())
            return None
        return self._eagerly("barrier", lane, lambda: self._meet("barrier", lane), lambda _: None, async_op)

    def exchange_bytes(self, call: str, content: bytes, group: Group | None, root: int | None = None) -> list[bytes]:
        """The bytes of each worker of a group, or of `root` alone; their sizes may differ."""
        lane = self._lanes.of(self._checked_group(call, group).workers)
        if not tf.executing_eagerly():
            raise UsageError(f"{call} runs in eager code. Received: a call in a tf.function. Call it outside of it.")
        result: list[bytes] = self._eagerly(
            call, lane, lambda: self._exchange_bytes(call, content, lane, root), lambda found: found, async_op=False
        )
        return result

    def _checked_group(self, call: object, group: Group | None) -> Group:
        name = str(call)
        if group is not None and not isinstance(group, Group):
            raise UsageError(f"{name} expects group=tfdist.group([0, 2]). Received: group={safe_repr(group)}")
        chosen = self.everyone if group is None else group
        if chosen.workers[-1] >= len(self.everyone):
            raise UsageError(f"{name}: the group {chosen.workers} is one of a larger job. Make it by tfdist.group.")
        groups.check_member(chosen, self.worker, name)
        if isinstance(call, Call) and call.root is not None:
            groups.check_root("root", call.root, chosen, call.kind)
        return chosen

    def _checked_peer(self, name: str, peer: int, call: str) -> int:
        found = groups.check_root(name, peer, self.everyone, call)
        if found == self.worker:
            raise UsageError(f"{call} goes between two workers. Received: {name}={peer}, which is this worker.")
        return found

    def _run(self, call: Call, value: Any, lane: Lane, async_op: bool) -> Any:
        values = self._given(call, value)
        if len(lane.workers) == 1:
            assert values is not None, "the only worker gives what there is"
            alone = _packed(call, values, _alone(call, values), self.worker)
            return finished(str(call), alone) if async_op else alone
        if not tf.executing_eagerly():
            return self._traced(call, values, lane, async_op)

        def finish(found: tuple[Values, list[tf.Tensor]]) -> Any:
            given, results = found
            return _packed(call, given, self._connected(call, given, results, lane), self.worker)

        is_ordered = placement.is_ordered(async_op=async_op)
        return self._eagerly(
            str(call), lane, lambda: self._transferred(call, values, lane, is_ordered), finish, async_op
        )

    def _given(self, call: Call, value: Any) -> Values | None:
        if value is None and call.needs_one_giver and call.root != self.worker:
            return None
        values = values_of(value)
        if call.op is None:
            return values
        leaves = tuple(accumulated(leaf, call.op) for leaf in values.leaves)
        for leaf in leaves:
            check_reducible(leaf.tensor.dtype, call.op)
        return Values(values.structure, leaves)

    def _eagerly(
        self, call: str, lane: Lane, work: Callable[[], Any], finish: Callable[[Any], Any], async_op: bool
    ) -> Any:
        def noted() -> Any:
            with self._noted():
                return work()

        if async_op:
            return Handle(call, lane.submit(noted), finish)
        with self._waiting():
            found = lane.run(noted)
        return finish(found)

    def _meet(self, call: str, lane: Lane) -> None:
        if len(lane.workers) > 1:
            meet(contract_of(call, None), 0, lane, self._engine)

    def _transferred(
        self, call: Call, values: Values | None, lane: Lane, is_ordered: bool
    ) -> tuple[Values, list[tf.Tensor]]:
        """The values as all workers describe them, and the results for their leaves."""
        contract = contract_of(str(call), values)
        told = placement.ANYWHERE
        if values is not None or not is_ordered:
            told = placement.said(self._on_device(values, is_ordered))
        meeting = meet(contract, _content(call, values, lane), lane, self._engine, told)
        if values is None:
            assert meeting.contracts is not None, "they are told where somebody gives nothing"
            values = values_like(next(said for said in meeting.contracts if said.values is not None))
        tensors = [leaf.tensor for leaf in values.leaves]
        _check_shapes(call, values, len(lane.workers))
        places = placement.agreed(meeting.placements, values)
        if meeting.contents is None:
            return values, self._carried(call, tensors, places, lane)
        known = KnownRows(meeting.contents)
        results = transfer(call, tensors, lane.workers, known, lambda _: lane.eager_channel("known"))
        return values, [self._laid(result) if at in places else result for at, result in enumerate(results)]

    def _on_device(self, values: Values | None, is_ordered: bool) -> tuple[int, ...]:
        """Returns which leaves can go from device to device, as far as this worker sees."""
        if self._between_devices is None or values is None or not is_ordered:
            return ()
        return placement.on_device(values.leaves, self._between_devices.device)

    def _laid(self, tensor: tf.Tensor) -> tf.Tensor:
        """A result on this worker's device, as what it was given for."""
        assert self._between_devices is not None, "something lies on one"
        with tf.device(self._between_devices.device):
            return tf.identity(tensor)

    def _carried(
        self, call: Call, tensors: Sequence[tf.Tensor], on_device: Sequence[int], lane: Lane
    ) -> list[tf.Tensor]:
        """The results for tensors, of which some go from device to device."""
        results = list(tensors)
        if on_device:
            engine = self._between_devices
            assert engine is not None, "something lies on one"
            with tf.device(engine.device):
                carry = functools.partial(_channel, call, lane, "between devices ")
                chosen = [tensors[at] for at in on_device]
                found = transfer(call, chosen, lane.workers, engine, carry, LARGEST_WORD)
            for at, result in zip(on_device, found, strict=True):
                results[at] = result
        rest = [at for at in range(len(tensors)) if at not in set(on_device)]
        found = transfer(
            call, [tensors[at] for at in rest], lane.workers, self._engine, functools.partial(_channel, call, lane, "")
        )
        for at, result in zip(rest, found, strict=True):
            results[at] = result
        return results

    def _traced(self, call: Call, values: Values | None, lane: Lane, async_op: bool) -> Any:
        if async_op:
            raise UsageError(
                f"{call}: async_op=True is for eager code. Received: a call in a tf.function, where operations that do "
                "not need the result go on meanwhile. Leave it out."
            )
        if values is None:
            raise UsageError(
                f"{call}: in a tf.function every worker gives values or their tf.TensorSpec(shape, dtype), as shapes "
                "are settled while it is traced. Received: None."
            )
        tensors = [leaf.tensor for leaf in values.leaves]
        _check_shapes(call, values, len(lane.workers))
        contract = contract_of(str(call), values)
        places = self._on_device(values, placement.is_ordered(async_op=False))
        parts = [places, [flat.indices for flat in flats_of(call, tensors, len(lane.workers))]]
        agreed = agree_in_graph(contract, tensors, parts, lane, self._engine, self._progress())
        with tf.control_dependencies([agreed, *check_cuts_in_graph(call, tensors, agreed, len(lane.workers))]):
            ready = [tf.identity(tensor) for tensor in tensors]
        results = self._carried(call, ready, places, lane)
        return _packed(call, values, self._connected(call, values, results, lane), self.worker)

    def _connected(self, call: Call, values: Values, results: Sequence[tf.Tensor], lane: Lane) -> list[tf.Tensor]:
        def again(transposed: Call, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
            named = dataclasses.replace(transposed, gradient_of=str(call))
            found: list[tf.Tensor] = self._run(named, list(tensors), lane, async_op=False)
            return found

        tensors = [leaf.tensor for leaf in values.leaves]
        return with_gradient(call, tensors, results, lane.workers, self.worker, again, self._watched)

    @functools.cached_property
    def _watched(self) -> tf.Variable:
        """A number that tapes watch, as they do all that they see read."""
        with tf.init_scope(), tf.device("CPU:0"), local_variables():
            return tf.Variable(0.0, name="tfdist_watched")

    def _exchange_bytes(self, call: str, content: bytes, lane: Lane, root: int | None) -> list[bytes]:
        if len(lane.workers) == 1:
            return [content]
        meeting = meet(contract_of(call, None), content, lane, self._engine)
        if meeting.contents is not None:
            return list(meeting.contents)
        size = padded_size(max(meeting.sizes))
        own = tf.constant(np.frombuffer(content.ljust(size, b"\0"), np.int32))
        if root is None:
            said = self._engine.all_gather(own, lane.eager_channel(("bytes", size))).numpy().tobytes()
        else:
            place = lane.workers.index(root)
            one = self._engine.broadcast(own, place, lane.eager_channel(("bytes of one", size))).numpy().tobytes()
            said = one * len(lane.workers)
        starts = range(0, len(said), size)
        return [said[start : start + length] for start, length in zip(starts, meeting.sizes, strict=True)]


def _check_shapes(call: Call, values: Values, workers: int) -> None:
    """Raises where a call cannot cut a value: texts by their elements, whatever bytes these have."""
    for leaf in values.leaves:
        call.shape_of_result(leaf.shape, workers)


def _fits(call: Call, values: Values, lane: Lane) -> bool:
    """Returns whether values can be cut as the call does; if not, all workers are told once they have met."""
    try:
        _check_shapes(call, values, len(lane.workers))
    except UsageError:
        return False
    return True


def _content(call: Call, values: Values | None, lane: Lane) -> bytes | int:
    """The bytes of this worker's values, or how many they are where they are more than a head has room for."""
    if values is None or not _fits(call, values, lane):
        return 0
    tensors = [leaf.tensor for leaf in values.leaves]
    size = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in tensors)
    if size > ROOM:
        # On the wire they are as many at least. What lies on a device is not touched for that.
        return size
    flats = [flat.flat for flat in flats_of(call, tensors, len(lane.workers))]
    size = sum(flat.shape[0] * flat.dtype.size for flat in flats)
    return size if size > ROOM else b"".join(flat.numpy().tobytes() for flat in flats)


def _channel(call: Call, lane: Lane, way: str, flat: tf.Tensor) -> Channel:
    """The channel for a flat tensor, in eager code or in a function."""
    if tf.executing_eagerly():
        return lane.eager_channel((way, call.primitive, call.op, flat.dtype, flat.shape[0]))
    carried = f"{way}{call.primitive} {call.op} {flat.dtype.name}"
    return lane.traced_channel(carried, tf.size(flat) if flat.shape[0] is None else flat.shape[0])


def _alone(call: Call, values: Values) -> list[tf.Tensor]:
    """The results where a group has one worker."""
    _check_shapes(call, values, 1)
    tensors = [leaf.tensor for leaf in values.leaves]
    if call.primitive == "all_gather":
        return [tf.expand_dims(tensor, 0) for tensor in tensors]
    return [tf.identity(tensor) for tensor in tensors]


def _packed(call: Call, values: Values, results: Sequence[tf.Tensor], worker: int) -> Any:
    if not call.has_result(worker):
        return None
    leaves: Sequence[Leaf] = values.leaves
    return values.pack([leaf.restore(result) for leaf, result in zip(leaves, results, strict=True)])
