"""Every collective on real workers, eagerly and in functions, with what it should give. Says which were right.

Its argument is what carries them: ring, shm, or nccl, for which tensors here lie on what stands for a GPU.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import tfdist

index, workers = tfdist.worker_index(), tfdist.num_workers()
LARGE = 600_001 * workers  # elements: of more than a flat tensor of small ones takes
right: dict[str, object] = {}
operations: set[str] = set()
"""Types of those in functions with collectives of some of the workers."""

ordered: set[str] = set()
"""Collectives that ran in the one order of a device, and where."""


def note_order(name: str) -> None:
    """Notes calls of TensorFlow's operation of a name that take a resource to be ordered by."""
    operation = getattr(tf.raw_ops, name)

    def noted(**options: object) -> tf.Tensor:
        if options["ordering_token"]:
            ordered.add(f"{name} {'eagerly' if tf.executing_eagerly() else 'in a function'}")
        return operation(**options)

    setattr(tf.raw_ops, name, noted)


def check(name: str, found: object, wanted: object) -> None:
    """Notes whether a nest of tensors and arrays has the wanted values."""
    tf.nest.assert_same_structure(found, wanted)
    if wanted is None:
        right[name] = found is None
        return
    pairs = zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True)
    right[name] = all(np.shape(one) == np.shape(two) and np.allclose(one, two) for one, two in pairs)


def value(worker: int, size: int = 4 * workers, dtype: str = "float32") -> tf.Tensor:
    """What a worker gives: a few small numbers, others on each."""
    return tf.cast((np.arange(size) * 7 + worker * 3) % 5, dtype)


def all_values(size: int = 4 * workers) -> np.ndarray:
    return np.stack([value(worker, size).numpy() for worker in range(workers)])


def part(array: np.ndarray, worker: int = index) -> np.ndarray:
    return np.split(array, workers)[worker]


def exchanged(given: tf.Tensor) -> dict[str, tf.Tensor]:
    """The collectives that give something to all."""
    return {
        "sum": tfdist.all_reduce(given),
        "mean": tfdist.all_reduce(given, "mean"),
        "product": tfdist.all_reduce(given, "product"),
        "max": tfdist.all_reduce(given, "max"),
        "min": tfdist.all_reduce(given, "min"),
        "gather": tfdist.all_gather(given),
        "broadcast": tfdist.broadcast(given, root=workers - 1),
        "scatter": tfdist.scatter(given, root=1),
        "parts": tfdist.reduce_scatter(given),
        "largest": tfdist.reduce_scatter(given, "max"),
        "exchange": tfdist.all_to_all(given),
    }


def wanted(size: int) -> dict[str, np.ndarray]:
    rows = all_values(size)
    return {
        "sum": rows.sum(0),
        "mean": rows.mean(0),
        "product": rows.prod(0),
        "max": rows.max(0),
        "min": rows.min(0),
        "gather": rows,
        "broadcast": rows[-1],
        "scatter": part(rows[1]),
        "parts": part(rows.sum(0)),
        "largest": part(rows.max(0)),
        "exchange": np.concatenate([part(row) for row in rows]),
    }


def eager() -> None:
    for size in (4 * workers, LARGE):
        check(f"eager {size}", exchanged(value(index, size)), wanted(size))
    for dtype in ("float64", "bfloat16", "float16", "int32", "int64", "bool", "uint8", "complex64"):
        given = value(index, 1001, dtype)
        rows = np.stack([value(worker, 1001, dtype).numpy() for worker in range(workers)])
        check(f"gather of {dtype}", tfdist.all_gather(given), rows)
        if dtype == "bool":
            check("any", tfdist.all_reduce(given, "max"), rows.any(0))
        else:
            check(f"sum of {dtype}", tfdist.all_reduce(given), sum(rows[1:], start=rows[0]))
    rows = all_values()
    at = workers - 1
    check("gather", tfdist.gather(value(index), root=at), rows if index == at else None)
    check("reduce", tfdist.reduce(value(index).numpy(), at), rows.sum(0) if index == at else None)
    nest = {"a": [value(index, LARGE), np.arange(3.0) * index], "b": index}
    total = sum(range(workers))
    check("nest", tfdist.all_reduce(nest), {"a": [all_values(LARGE).sum(0), np.arange(3.0) * total], "b": total})
    check("unknown", tfdist.broadcast(rows if index == 0 else None), rows)
    handles = [tfdist.all_reduce(value(index) * i, async_op=True) for i in range(20)]
    check("handles", [handle.wait(60) for handle in handles], [rows.sum(0) * i for i in range(20)])
    objects = tfdist.all_gather_object({"worker": index, "texts": ["\u00e4"] * index * 300})
    right["objects"] = objects == [{"worker": i, "texts": ["\u00e4"] * i * 300} for i in range(workers)]
    right["object"] = tfdist.broadcast_object({"of": index} if index == 1 else None, root=1) == {"of": 1}


def in_functions() -> None:
    function = tf.function(exchanged)
    for size in (4 * workers, LARGE, 4 * workers):
        check(f"function {size}", function(value(index, size)), wanted(size))
    signature = [tf.TensorSpec([None])]
    unknown = tf.function(exchanged, input_signature=signature)
    for size in (3 * workers, 5 * workers):
        check(f"unknown size {size}", unknown(value(index, size)), wanted(size))
    empty = unknown(tf.zeros([0]))
    right["empty"] = empty["sum"].shape == (0,) and empty["gather"].shape == (workers, 0)
    shapes = function.get_concrete_function(value(index)).structured_outputs
    right["static shapes"] = all(spec.shape.is_fully_defined() for spec in shapes.values())

    @tf.function
    def repeated(count: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([2])
        for step in tf.range(count):
            total += tfdist.all_reduce(tf.fill([2], tf.cast(step * (index + 1), tf.float32)))
        tfdist.barrier()
        return total

    check("loop", repeated(tf.constant(5)), np.full(2, 10.0 * sum(range(1, workers + 1))))

    # Each worker traces for inputs of its own, and as often as it needs.
    @tf.function
    def uneven(own: tf.Tensor) -> tf.Tensor:
        return tfdist.all_reduce(tf.reduce_sum(own))

    for step in range(3):
        check(f"uneven {step}", uneven(tf.ones([1 + index * step])), sum(1 + i * step for i in range(workers)))


def gradients() -> None:
    """Of the sum of all workers' losses: eagerly, in a function, and of a variable in a step of the strategy."""
    weights = [tf.cast(tf.range(4 * workers) + worker, tf.float32) for worker in range(workers)]
    summed = sum(weight.numpy() for weight in weights)
    expected = {
        "sum": (tfdist.all_reduce, summed),
        "mean": (lambda x: tfdist.all_reduce(x, "mean"), summed / workers),
        "gather": (lambda x: tfdist.all_gather(x)[0], summed * (index == 0)),
        # Each worker's part comes up in its loss once for every worker, with the weights of that part.
        "parts": (
            lambda x: tf.tile(tfdist.reduce_scatter(x), [workers]),
            np.concatenate([weight.numpy().reshape(workers, -1).sum(0) for weight in weights]),
        ),
        "exchange": (tfdist.all_to_all, np.concatenate([part(weight.numpy()) for weight in weights])),
        "broadcast": (tfdist.broadcast, summed * (index == 0)),
    }
    for name, (call, wanted_gradient) in expected.items():

        def gradient(given: tf.Tensor, call=call) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(given)
                loss = tf.reduce_sum(call(given) * weights[index])
            return tape.gradient(loss, given)

        check(f"gradient of {name}", gradient(value(index)), wanted_gradient)
        check(f"gradient of {name} in a function", tf.function(gradient)(value(index)), wanted_gradient)
    strategy = tfdist.strategy()
    with strategy.scope():
        variable = tf.Variable(np.arange(4.0 * workers), dtype=tf.float32)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tfdist.all_reduce(variable * (index + 1), "mean") * weights[index])
        return tape.gradient(loss, variable)

    check("step", strategy.run(step), summed / workers * (index + 1))


def initial_values() -> None:
    """Variables begin with the chief's values, whatever a worker has itself."""
    own = np.arange(200_000) + 1000 * index
    chiefs = np.arange(200_000)
    strategy = tfdist.strategy()
    with strategy.scope():
        for dtype in (tf.float32, tf.float16, tf.bfloat16, tf.int64, tf.uint8, tf.complex64):
            made = tf.Variable(tf.cast(own % 199, dtype))
            right[f"{dtype.name} variable"] = bool(tf.reduce_all(made == tf.cast(chiefs % 199, dtype)))
        check("variable of shape ()", tf.Variable(lambda: index + 2.5), 2.5)
        check("variable of two dimensions", tf.Variable(tf.ones([2, 3]) * index), np.zeros([2, 3]))
        check("empty variable", tf.Variable(tf.ones([0, 3])), np.zeros([0, 3]))
        check("truth", tf.Variable(index == 0), True)
        names = tf.Variable([[f"\u00e9 of {index}", ""], ["\0" * (index + 1), "x" * 70_000 * (index + 1)]])
        right["texts"] = names.numpy().tolist() == [["\u00e9 of 0".encode(), b""], [b"\0", b"x" * 70_000]]
        right["text"] = tf.Variable(f"{10**index}").numpy() == b"1"
        right["no texts"] = tf.Variable(tf.zeros([0, 2], tf.string)).shape == (0, 2)
        right["text in a function"] = "the variable 'late' of that dtype" in refused_in_a_function(strategy)
        lazy: list[tf.Variable] = []

        @tf.function
        def read() -> tf.Tensor:
            if not lazy:
                lazy.append(tf.Variable(tf.ones([2]) * index))
            return lazy[0] + 1

        check("variable of a function", strategy.run(read), np.ones(2))
        model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
        check("weights", tfdist.all_gather(model.weights[0].value)[-1], model.weights[0])


def refused_in_a_function(strategy: tf.distribute.Strategy) -> str:
    """What is said of a variable that a function makes of a dtype that TensorFlow does not broadcast."""
    late: list[tf.Variable] = []

    @tf.function
    def make() -> tf.Tensor:
        if not late:
            late.append(tf.Variable(f"{index}", name="late"))
        return late[0].read_value()

    try:
        strategy.run(make)
    except tfdist.UnsupportedError as error:
        return str(error)
    return ""


def sums_of_the_strategy() -> None:
    """What TensorFlow's own functions sum over the replicas, which nobody asked tfdist for."""
    strategy = tfdist.strategy()
    everyone = all_values()
    each = strategy.run(lambda: value(index))
    rows = tf.IndexedSlices(value(index)[None], tf.constant([index]), tf.constant([workers, 4 * workers]))
    with strategy.scope():
        state = tf.Variable(
            0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM
        )
    strategy.run(lambda: state.assign_add(index + 1))
    check("read", state.read_value(), workers * (workers + 1) // 2)

    def within() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        context = tf.distribute.get_replica_context()
        given = value(index)
        with tf.GradientTape() as tape:
            tape.watch(given)
            total, mean = context.all_reduce("sum", given), context.all_reduce("mean", given)
            loss = tf.reduce_sum(total * (index + 1))
        return total, mean, tape.gradient(loss, given)

    def slices() -> tf.Tensor:
        return tf.convert_to_tensor(tf.distribute.get_replica_context().all_reduce("sum", rows))

    gradient = np.full(4 * workers, workers * (workers + 1) / 2)
    for name, function in {"": lambda call: call(), " in a function": lambda call: tf.function(call)()}.items():
        check(f"reduced{name}", function(lambda: strategy.reduce("sum", each, axis=None)), everyone.sum(0))
        check(f"reduced mean{name}", function(lambda: strategy.reduce("mean", each, axis=None)), everyone.mean(0))
        check(f"reduced rows{name}", function(lambda: strategy.reduce("mean", each, axis=0)), everyone.mean())
        summed = function(lambda: strategy.run(within))
        check(f"reduced by replicas{name}", summed, (everyone.sum(0), everyone.mean(0), gradient))
        check(f"reduced slices{name}", function(lambda: strategy.run(slices)), everyone)


def parts_of_the_workers() -> None:
    for members in ([0, workers - 1], [0], list(range(workers)), [workers - 1, 1]):
        if len(set(members)) < len(members):
            continue
        group = tfdist.group(members)
        if index in group:
            name = f"group {members}"
            check(name, tfdist.all_reduce(value(index, 900), group=group), all_values(900)[members].sum(0))
            traced = tf.function(lambda given, group=group: tfdist.all_gather(given, group=group))
            check(f"{name} in a function", traced(value(index)), all_values()[sorted(members)])
            operations.update(each.type for each in traced.get_concrete_function(value(index)).graph.get_operations())
    check_groups_that_overlap()
    ends = tfdist.group([0, workers - 1])
    if index in ends:

        @tf.function
        def gradient(given: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(given)
                loss = tf.reduce_sum(tfdist.all_reduce(given, group=ends) * value(index + 1))
            return tape.gradient(loss, given)

        check("gradient in a group", gradient(value(index)), value(1).numpy() + value(workers).numpy())
    if index == 0:
        for size in (3, 3000):
            tfdist.send({"x": value(0, size)}, 1)
        check("received", tfdist.recv(1), all_values()[1])
    if index == 1:
        for size in (3, 3000):
            check(f"received {size}", tfdist.recv(0), {"x": all_values(size)[0]})
        tfdist.send(value(1), 0)
    if index < 2:
        # Both send before they receive, beside a call of all, which comes before or after it.
        every = [tfdist.all_reduce(value(index, 900), async_op=True)] if index else []
        sent = tfdist.send(value(index, 900), 1 - index, async_op=True)
        check("received of one that sends", tfdist.recv(1 - index), all_values(900)[1 - index])
        every += [] if index else [tfdist.all_reduce(value(index, 900), async_op=True)]
        sent.wait()
        check("beside it", [handle.wait() for handle in every], [all_values(900).sum(0)])
    else:
        tfdist.all_reduce(value(index, 900))
    if index < 2:
        both = tf.function(
            lambda: tfdist.send(value(0), 1) if index == 0 else tfdist.recv(0, tf.TensorSpec([4 * workers]))
        )
        received = both()
        if index == 1:
            check("received in a function", received, all_values()[0])
    tfdist.barrier()


def check_groups_that_overlap() -> None:
    """Under way at once, in another order on each worker, and beside a function with some of them."""
    members = [[0, 1], [1, workers - 1], [0, workers - 1], list(range(workers))]
    groups = {str(each): tfdist.group(each) for each in members if len(set(each)) == len(each)}
    own = [name for name, group in groups.items() if index in group]
    turned = own[index % len(own) :] + own[: index % len(own)]
    handles = {name: tfdist.all_reduce(value(index, 9000), group=groups[name], async_op=True) for name in turned}

    @tf.function
    def function() -> dict[str, tf.Tensor]:
        return {name: tfdist.all_reduce(value(index, 9000), "max", group=groups[name]) for name in own}

    found = function()
    for name in own:
        rows = all_values(9000)[list(groups[name].workers)]
        check(f"overlapping {name}", handles[name].wait(60), rows.sum(0))
        check(f"overlapping {name} in a function", found[name], rows.max(0))


def refusals() -> dict[str, str]:
    """What each worker is told where they disagree. The last one is the end of all collectives."""

    def make_variable() -> None:
        with tfdist.strategy().scope():
            tf.Variable(tf.ones([2 + index, 3 - index]) if index < 2 else tf.ones([6]), name="odd")

    said = {}
    for name, call in {
        **({"variable": make_variable} if sys.argv[1] == "shm" else {}),
        "shape": lambda: tfdist.all_reduce(tf.ones([3 + index])),
        "dtype": lambda: tfdist.all_gather(tf.ones([1000], "float64" if index else "float32")),
        "call": lambda: tfdist.all_reduce(1.0) if index else tfdist.all_gather(1.0),
        "function": lambda: tf.function(lambda given: tfdist.all_reduce(given))(tf.ones([3 + index])),
    }.items():
        try:
            call()
        except (tfdist.UsageError, tf.errors.InvalidArgumentError) as error:
            said[name] = str(error)
    return said


for name in ("CollectiveReduceV2", "CollectiveGatherV2", "CollectiveAllToAllV2"):
    note_order(name)
for checks in (initial_values, sums_of_the_strategy, eager, in_functions, gradients, parts_of_the_workers):
    checks()
said = {"right": right, "operations": sorted(operations), "ordered": sorted(ordered), "refused": refusals()}
print(json.dumps(said), flush=True)
sys.exit()
