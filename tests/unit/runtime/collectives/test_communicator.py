"""Collectives of 1 to 4 workers, played in one process: what each gets, and what each is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.runtime.collectives.played_workers import MirrorEngine, play
from tfdist.errors import UsageError, WorkerFailedError
from tfdist.runtime.collectives.agreement import ROOM
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.wire.groups import Group
from tfdist.training.supervision.error_report import explain

NUMBERS = ["float64", "float32", "bfloat16", "float16", "int32", "int64"]
OTHERS = ["int8", "uint8", "int16", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"]
WORKERS = pytest.mark.parametrize("workers", [1, 2, 3, 4])
SIZES = pytest.mark.parametrize("rows", [1, 150])
"""Of few bytes, which travel with the call, and of many."""

REDUCE = {"sum": np.sum, "mean": np.mean, "product": np.prod, "max": np.max, "min": np.min}


def values(worker: int, dtype: str, *shape: int) -> tf.Tensor:
    drawn = np.random.default_rng(worker).integers(0 if dtype[0] in "ub" and dtype != "bfloat16" else -3, 4, shape)
    return tf.cast(drawn, dtype)


def assert_same(found: Any, wanted: Any) -> None:
    assert isinstance(found, tf.Tensor)
    assert found.shape == np.shape(wanted)
    if found.dtype.is_floating or found.dtype.is_complex:
        np.testing.assert_allclose(tf.cast(found, tf.complex128), wanted, rtol=1e-2 if found.dtype.size == 2 else 1e-6)
    else:
        assert found.numpy().tolist() == np.asarray(wanted).tolist()


@WORKERS
@SIZES
@pytest.mark.parametrize("op", ["sum", "mean", "product", "max", "min"])
def test_tensors_of_many_dtypes_are_reduced(workers: int, rows: int, op: str) -> None:
    """A nest of all dtypes at once, which fit together into flat tensors."""
    dtypes = [dtype for dtype in NUMBERS if op != "mean" or "float" in dtype]
    dtypes += [] if op == "mean" else ["int8", "uint16", "uint32"]
    dtypes += {"sum": ["complex64", "complex128", "uint64"], "mean": ["complex64"]}.get(op, [])
    dtypes += ["bool"] if op in ("max", "min") else []

    def act(own: Communicator) -> Any:
        return own.run(Call("all_reduce", op), {dtype: values(own.worker, dtype, rows, 2) for dtype in dtypes})

    for found in play(workers, act):
        for dtype in dtypes:
            each = np.stack([values(worker, dtype, rows, 2).numpy() for worker in range(workers)])
            wide = each.astype(np.complex128 if "complex" in dtype else np.float64) if dtype != "bool" else each
            assert found[dtype].dtype == dtype
            assert_same(
                found[dtype], REDUCE[op](wide, axis=0).astype(each.dtype if each.dtype.kind in "biu" else wide.dtype)
            )


@WORKERS
@SIZES
@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS])
def test_moves_copy_every_dtype_bit_for_bit(workers: int, rows: int, dtype: str) -> None:
    shape = (workers * rows, 3)
    last = workers - 1

    def act(own: Communicator) -> Any:
        value = values(own.worker, dtype, *shape)
        return {kind: own.run(Call(kind, root=root), value) for kind, root in (
            ("all_gather", None), ("gather", last), ("broadcast", last), ("scatter", 0), ("all_to_all", None)
        )}  # fmt: skip

    each = [values(worker, dtype, *shape).numpy() for worker in range(workers)]
    for worker, found in enumerate(play(workers, act)):
        mine = slice(worker * rows, (worker + 1) * rows)
        assert_same(found["all_gather"], np.stack(each))
        assert_same(found["broadcast"], each[last])
        assert_same(found["scatter"], each[0][mine])
        assert_same(found["all_to_all"], np.concatenate([one[mine] for one in each]))
        if worker == last:
            assert_same(found["gather"], np.stack(each))
        else:
            assert found["gather"] is None


@WORKERS
@SIZES
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_parts_of_reductions(workers: int, rows: int, op: str) -> None:
    shape = (workers * rows, 2)

    def act(own: Communicator) -> Any:
        value = values(own.worker, "float32", *shape)
        return own.run(Call("reduce_scatter", op), value), own.run(Call("reduce", op, workers - 1), value)

    wanted = REDUCE[op](np.stack([values(worker, "float32", *shape).numpy() for worker in range(workers)]), axis=0)
    for worker, (part, whole) in enumerate(play(workers, act)):
        assert_same(part, wanted[worker * rows : (worker + 1) * rows])
        if worker == workers - 1:
            assert_same(whole, wanted)
        else:
            assert whole is None


def test_values_that_are_no_numbers_keep_their_bits() -> None:
    """-0.0 and the bits of a NaN, of numbers below the normal ones, and of texts."""
    bits = np.array([0x8000_0000, 0x7FC0_1234, 0x0000_0001], np.uint32).view(np.float32)
    texts = np.array(["\u00e4", "abc"])
    for found in play(2, lambda own: own.run(Call("all_gather"), [bits, texts, bits.astype(">f4")])):
        assert found[0].tobytes() == bits.tobytes() * 2
        assert found[1].tolist() == [texts.tolist()] * 2
        assert found[2].tobytes() == bits.tobytes() * 2


@WORKERS
def test_arrays_and_numbers_are_reduced_as_numpy_does(workers: int) -> None:
    def act(own: Communicator) -> Any:
        number = own.worker + 1
        return [
            own.run(Call("all_reduce", op), value)
            for op, value in (("mean", number), ("sum", np.int8(100)), ("sum", True), ("max", [number, 2.5]))
        ]

    for mean, small, count, largest in play(workers, act):
        assert all(isinstance(one, np.ndarray) for one in (mean, small, count, largest))
        assert (float(mean), mean.dtype) == ((workers + 1) / 2, np.float64)
        assert (int(small), int(count)) == (100 * workers, workers)
        assert largest.tolist() == [workers, 2.5 if workers < 3 else 2.5]


def test_a_nest_keeps_its_structure_and_its_kinds() -> None:
    def act(own: Communicator) -> Any:
        return own.run(Call("all_reduce", "sum"), {"b": (tf.ones([2]), [np.ones(3), 4]), "a": tf.zeros([0, 2])})

    for found in play(2, act):
        assert found["b"][0].numpy().tolist() == [2, 2]
        assert found["b"][1][0].tolist() == [2, 2, 2]
        assert int(found["b"][1][1]) == 8
        assert (found["a"].shape, isinstance(found["b"], tuple)) == ((0, 2), True)


@SIZES
def test_workers_that_get_a_value_need_not_know_it(rows: int) -> None:
    """None, or a description, where the value is another worker's; arrays stay arrays."""
    value = {"x": np.arange(4.0 * rows), "y": [tf.ones([2, rows], tf.bfloat16), np.array(["a", "b"])]}
    like = {"x": np.zeros(4 * rows), "y": [tf.TensorSpec([2, rows], tf.bfloat16), np.array(["", ""], "<U1")]}
    given = [None, value, like]
    for found in play(3, lambda own: own.run(Call("broadcast", root=1), given[own.worker])):
        assert isinstance(found["x"], np.ndarray)
        assert found["x"].tolist() == value["x"].tolist()
        assert (found["y"][0].dtype, found["y"][1].tolist()) == (tf.bfloat16, ["a", "b"])


def test_who_gives_the_value_gives_one() -> None:
    with pytest.raises(UsageError, match="Received: a NoneType"):
        play(1, lambda own: own.run(Call("broadcast", root=0), None))


@SIZES
def test_two_workers_send_and_receive_alone(rows: int) -> None:
    """Both send before they receive; the third takes no part."""

    def act(own: Communicator) -> Any:
        if own.worker == 1:
            return None
        other = 2 - own.worker
        sent = own.send({"from": np.full(rows, own.worker)}, other, async_op=True)
        received = own.receive(other, None)
        assert sent.wait() is not None
        return received["from"].tolist()

    assert play(3, act) == [[2] * rows, None, [0] * rows]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (np.zeros(2), np.zeros(3), r"float64 of shape \(2,\) on worker 0; float64 of shape \(3,\) on worker 1"),
        (np.zeros(2), np.zeros(2, "f4"), r"float64 of shape .* on worker 0; float32 of shape .* on worker 1"),
        (np.zeros(900), np.zeros(901), r"shape \(900,\) on worker 0; float64 of shape \(901,\)"),
        ({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": [2.0, 1.0]}, r"\['b'\]: float64 of shape \(\) on worker 0"),
        ({"a": 1.0}, {"c": 1.0}, r"\['a'\]: float64 of shape \(\) on worker 0; nothing on worker 1"),
        (np.zeros((2, 1)), np.zeros((1, 2)), r"\(2, 1\) on worker 0"),
    ],
)
def test_values_that_differ_are_named_on_every_worker(first: Any, second: Any, said: str) -> None:
    def act(own: Communicator) -> str:
        with pytest.raises(UsageError) as told:
            own.run(Call("all_reduce", "sum"), (first, second)[own.worker])
        assert own.run(Call("all_reduce", "sum"), 1) == 2  # nothing is broken by it
        return str(told.value)

    one, two = play(2, act)
    assert one == two
    with pytest.raises(UsageError, match=said):
        raise UsageError(one)


def test_other_collectives_are_named_on_every_worker() -> None:
    calls = [Call("all_reduce", "sum"), Call("all_reduce", "max"), Call("broadcast", root=1), Call("broadcast", root=0)]

    def act(own: Communicator) -> str:
        with pytest.raises(UsageError) as told:
            own.run(calls[own.worker], 1)
        return str(told.value)

    for said in play(4, act):
        assert "all_reduce(sum) on worker 0; all_reduce(max) on worker 1; broadcast from worker 1 on worker 2" in said


def test_a_value_that_cannot_be_cut_is_refused_on_every_worker() -> None:
    def act(own: Communicator) -> None:
        with pytest.raises(UsageError, match=r"equal parts for 2 workers.*shape \(3, 2\).*tf.pad"):
            own.run(Call("reduce_scatter", "sum"), tf.ones([3, 2]))

    play(2, act)


@pytest.mark.parametrize("call", [Call("scatter", root=0), Call("reduce_scatter", "sum"), Call("all_to_all")], ids=str)
def test_a_size_that_a_function_learns_late_is_refused_where_it_cannot_be_cut(call: Call) -> None:
    own = Communicator(0, 2, MirrorEngine())
    function = tf.function(lambda value: own.run(call, value), input_signature=[tf.TensorSpec([None, 4])])
    for rows in (0, 4):
        assert function(tf.ones([rows, 4])).shape == (rows if call.kind == "all_to_all" else rows // 2, 4)
    with pytest.raises(tf.errors.InvalidArgumentError) as told:
        function(tf.ones([3, 4]))
    known = explain(told.value)
    assert isinstance(known, UsageError)
    assert str(known) == call.uncut("[3 4]", 2)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("gives", [True, False])
def test_a_text_is_not_cut_into_letters(workers: int, gives: bool) -> None:
    calls = [Call("scatter", root=0)] if not gives else [Call("scatter", root=0), Call("all_to_all")]

    def act(own: Communicator) -> None:
        for call in calls:
            with pytest.raises(UsageError, match=r"equal parts .*Received: a value of shape \(\)"):
                own.run(call, "abcd" if gives or own.worker == 0 else None)

    play(workers, act)


@pytest.mark.parametrize(
    ("value", "op", "said"),
    [
        (tf.constant([True]), "sum", "There is no sum over workers of bool"),
        (tf.constant([1]), "mean", "There is no mean over workers of int32"),
        (tf.constant([1j]), "max", "There is no max over workers of complex128"),
        (tf.constant(["a"]), "sum", "a tensor of string"),
        (np.array(["a"]), "sum", "There is no sum"),
        (object(), "sum", "Received: a object"),
        ({}, "sum", "an empty dict"),
        ({"a": None}, "sum", "Received: a NoneType"),
        (tf.IndexedSlices(tf.ones([1, 2]), [0]), "sum", "Received: a IndexedSlices.*convert_to_tensor"),
        (tf.ragged.constant([[1], [2, 3]]), "sum", "Received: a RaggedTensor"),
    ],
)
def test_what_cannot_be_reduced_is_refused_at_once(value: Any, op: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Communicator(0, 2, None).run(Call("all_reduce", op), value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda own: own.run(Call("broadcast", root=3), 1), "one of the workers 0, 1, 2. Received: root=3"),
        (lambda own: own.run(Call("broadcast", root=-1), 1), "Received: root=-1"),
        (lambda own: own.run(Call("gather", root=1), 1, Group((0, 2))), "one of the workers 0, 2. Received: root=1"),
        (lambda own: own.run(Call("all_gather"), 1, Group((1, 2))), "its workers alone, 1, 2.*worker 0"),
        (lambda own: own.run(Call("all_gather"), 1, Group((0, 7))), "is one of a larger job"),
        (lambda own: own.run(Call("all_gather"), 1, [0, 1]), r"expects group=tfdist.group\(\[0, 2\]\)"),
        (lambda own: own.barrier(Group((1, 2))), "barrier in a group is called by its workers alone"),
        (lambda own: own.send(1, 0), "between two workers. Received: to=0"),
        (lambda own: own.receive(5, None), "Received: source=5"),
    ],
)
def test_workers_that_cannot_take_part_are_refused_at_once(act: Callable[[Communicator], Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        act(Communicator(0, 3, None))  # type: ignore[arg-type]


def test_groups_may_be_used_in_any_order() -> None:
    """Each of three pairs is waited for last by one of its workers and first by the other."""
    pairs = {0: [(0, 1), (0, 2)], 1: [(1, 2), (0, 1)], 2: [(0, 2), (1, 2)]}

    def act(own: Communicator) -> dict[tuple[int, int], int]:
        under_way = {
            pair: own.run(Call("all_reduce", "sum"), np.full(200, 10**own.worker), Group(pair), async_op=True)
            for pair in pairs[own.worker]
        }
        return {pair: int(handle.wait()[0]) for pair, handle in under_way.items()}

    assert play(3, act) == [{(0, 1): 11, (0, 2): 101}, {(1, 2): 110, (0, 1): 11}, {(0, 2): 101, (1, 2): 110}]


def test_calls_keep_their_order_whether_they_are_waited_for_or_not() -> None:
    def act(own: Communicator) -> list[float]:
        under_way = [own.run(Call("all_reduce", "sum"), tf.fill([500], float(i)), async_op=True) for i in range(6)]
        now = own.run(Call("all_reduce", "sum"), tf.fill([500], 100.0))
        return [float(now[0]), *(float(handle.wait()[0]) for handle in reversed(under_way))]

    assert play(2, act) == [[200, 10, 8, 6, 4, 2, 0]] * 2


def test_a_handle_says_when_it_is_done_and_waits_no_longer_than_it_is_told() -> None:
    come = threading.Event()

    def act(own: Communicator) -> Any:
        if own.worker == 1:
            assert come.wait(20)
            return own.run(Call("all_reduce", "sum"), 2)
        array = np.zeros(1)
        handle = own.run(Call("all_reduce", "sum"), array, async_op=True)
        array[:] = 1000  # what was given is what counts
        with pytest.raises(WorkerFailedError, match=r"all_reduce\(sum\) was not over after 0.05 s"):
            handle.wait(timeout=0.05)
        assert not handle.done()
        come.set()
        assert handle.wait(20) is handle.wait()
        assert handle.done()
        return handle.wait()

    with pytest.raises(UsageError, match="float64 of shape"):
        play(2, act)


def test_a_handle_raises_what_went_wrong() -> None:
    def act(own: Communicator) -> None:
        handle = own.run(Call("all_reduce", "sum"), np.zeros(own.worker + 1), async_op=True)
        for _ in range(2):
            with pytest.raises(UsageError, match="on worker 0"):
                handle.wait()
        assert handle.done()

    play(2, act)


def test_what_was_given_may_be_changed_while_it_is_under_way() -> None:
    come = threading.Event()

    def act(own: Communicator) -> float:
        array = np.full(1000, 1.0)
        if own.worker == 1:
            assert come.wait(20)
        handle = own.run(Call("all_reduce", "sum"), array, async_op=True)
        array[:] = 1000
        come.set()
        return float(handle.wait()[0])

    assert play(2, act) == [2.0, 2.0]


@WORKERS
def test_bytes_of_any_size_are_exchanged(workers: int) -> None:
    for size in (0, ROOM, ROOM + 1, 5000):
        each = [bytes([worker]) * (size + worker) for worker in range(workers)]
        assert play(workers, lambda own, each=each: own.exchange_bytes("x", each[own.worker], None)) == [each] * workers
        one = play(
            workers, lambda own, each=each: own.exchange_bytes("x", each[1] if own.worker == 1 else b"", None, root=1)
        ) if workers > 1 else []  # fmt: skip
        assert all(said[1] == each[1] for said in one)


def test_a_barrier_waits_for_all() -> None:
    arrived: list[int] = []

    def act(own: Communicator) -> int:
        arrived.append(own.worker)
        own.barrier()
        return len(arrived)

    assert play(4, act) == [4] * 4
