"""Loops of one's own with `strategy.run`: what the documentation shows is exact, and means of replicas are told."""

from __future__ import annotations

import contextlib
import functools
import logging
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.repair_removal import take_out
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.warn_once import say_once, warn_once
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")

Loss = Callable[[Any, Any], Any]


def squares(y: Any, predicted: Any) -> Any:
    return tf.reduce_mean(tf.square(y - predicted), axis=-1)


def regularized(y: Any, predicted: Any) -> Any:
    penalty = tf.nn.scale_regularization_loss(tf.constant(0.5))
    return tf.nn.compute_average_loss(squares(y, predicted)) + penalty


ASSIGNMENTS = "tensorflow.python.ops.gen_resource_variable_ops"

Gradients = tuple[Any, list[Any]]
Step = Callable[[keras.Model, Any, Any, int], Gradients]
"""Of a model, a replica's samples and labels, and the number of replicas as a script knows it."""

EXACT: dict[str, Loss] = {
    "average": lambda y, predicted: tf.nn.compute_average_loss(squares(y, predicted)),
    "keras": lambda y, predicted: keras.losses.MeanSquaredError()(y, predicted),
    "regularized": regularized,
}
MEANS: dict[str, Loss] = {
    "mean": lambda y, predicted: tf.reduce_mean(squares(y, predicted)),
    "divided": lambda y, predicted: tf.reduce_mean(squares(y, predicted)) / 3,
}


def gradients_of(loss: Callable[[keras.Model, Any, Any], Any], model: keras.Model, x: Any, y: Any) -> Gradients:
    with tf.GradientTape() as tape:
        value = loss(model, x, y)
    return value, tape.gradient(value, model.trainable_variables)


def of_loss(loss: Loss) -> Step:
    def step(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
        return gradients_of(lambda model, x, y: loss(y, model(x, training=True)), model, x, y)

    return step


def losses_of(loss: Loss, strategy: tf.distribute.Strategy, *, drops: bool = False, builds: bool = True) -> list[float]:
    return trained(of_loss(loss), strategy, drops=drops, builds=builds)


def trained(
    step_of: Step, strategy: tf.distribute.Strategy, *, drops: bool = False, builds: bool = True
) -> list[float]:
    """The losses of two epochs of 20 samples, in batches that do not divide."""
    keras.utils.set_random_seed(12)
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        dense = keras.layers.Dense(3, activity_regularizer="l2")
        model = keras.Sequential([*([keras.Input((6,))] if builds else []), dense])
        optimizer = keras.optimizers.SGD(0.05)

    def on_replica(x: Any, y: Any) -> Any:
        value, gradients = step_of(model, x, y, count)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(on_replica, args=batch), axis=None)

    x, _ = numbers(19)
    x = x.astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :3])).batch(9, drop_remainder=drops)
    data = strategy.experimental_distribute_dataset(data)
    return [float(step(batch)) for _ in range(2) for batch in data]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    warn_once.cache_clear()
    say_once.cache_clear()
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    caplog.set_level(logging.INFO, "tfdist")
    # pytest may have a record twice, by the root logger's handler, too.
    yield lambda: sorted({one.getMessage() for one in caplog.records if "strategy.run" in one.getMessage()})
    logger.removeHandler(caplog.handler)


@contextlib.contextmanager
def strictly(strategy: tf.distribute.Strategy) -> Iterator[None]:
    settings_of(strategy).strict = True
    try:
        yield
    finally:
        settings_of(strategy).strict = False


@pytest.mark.parametrize("name", ["average", slow("keras"), slow("regularized")])
def test_sums_over_the_global_batch_are_exact_and_not_warned_of(name: str, told: Callable[[], list[str]]) -> None:
    expected = losses_of(EXACT[name], tf.distribute.get_strategy())
    with strictly(mirrored(3)):
        received = losses_of(EXACT[name], mirrored(3))
    np.testing.assert_allclose(received, expected, rtol=2e-5)
    assert told() == []


@pytest.mark.parametrize(("name", "builds"), [("mean", True), slow("mean", False), slow("divided", True)])
def test_means_of_replicas_are_told(name: str, builds: bool, told: Callable[[], list[str]]) -> None:
    assert np.isnan(losses_of(MEANS[name], mirrored(3), builds=builds)[-1])
    # The first batch has as many for each replica, and may be right.
    message = next(one for one in told() if "that is right if" not in one)
    assert "gets the gradients of a mean over the samples of each replica" in message
    assert "tf.nn.compute_average_loss" in message


def test_means_of_replicas_are_refused_strictly() -> None:
    warn_once.cache_clear()
    with strictly(mirrored(3)), pytest.raises(UnsupportedError, match=r"strategy\.run.*refused with --strict"):
        losses_of(MEANS["mean"], mirrored(3))


def test_means_of_batches_that_divide_may_be_right(told: Callable[[], list[str]]) -> None:
    expected = losses_of(MEANS["mean"], tf.distribute.get_strategy(), drops=True)
    with strictly(mirrored(3)):
        received = losses_of(MEANS["divided"], mirrored(3), drops=True)
    np.testing.assert_allclose(received, expected, rtol=2e-5)
    (message,) = told()
    assert "as many times too large if it is not" in message


@pytest.mark.slow
def test_a_mean_that_is_divided_by_the_replicas_is_not_told_of(told: Callable[[], list[str]]) -> None:
    trained(of_loss(lambda y, predicted: own_share(tf.reduce_mean(squares(y, predicted)))), mirrored(3), drops=True)
    assert told() == []


@pytest.mark.slow
def test_without_the_repair_nothing_is_told(monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]) -> None:
    take_out("StrategyBase.run", monkeypatch)
    losses_of(MEANS["mean"], mirrored(3))
    assert told() == []


def average(model: keras.Model, x: Any, y: Any) -> Any:
    return tf.nn.compute_average_loss(squares(y, model(x, training=True)))


def clips_its_own(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
    value, gradients = gradients_of(average, model, x, y)
    return value, tf.clip_by_global_norm(gradients, 0.1)[0]


def clips_the_mean(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
    """As docs/scripts.md has it."""
    value, gradients = gradients_of(average, model, x, y)
    context = tf.distribute.get_replica_context()
    clipped, _ = tf.clip_by_global_norm(context.all_reduce("SUM", gradients), 0.1)
    return value, [gradient / context.num_replicas_in_sync for gradient in clipped]


def clips_all_with_a_known_count(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    value, gradients = gradients_of(average, model, x, y)
    context = tf.distribute.get_replica_context()
    gathered = [context.all_gather(gradient[tf.newaxis], axis=0) for gradient in gradients]
    clipped, _ = tf.clip_by_global_norm([tf.reduce_sum(each, axis=0) for each in gathered], 0.1)
    return value, [gradient / count for gradient in clipped]


def clips_by_merge_call(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    value, gradients = gradients_of(average, model, x, y)

    def clip(strategy: tf.distribute.Strategy, *values: Any) -> list[Any]:
        clipped, _ = tf.clip_by_global_norm([strategy.reduce("SUM", value, axis=None) for value in values], 0.1)
        return [gradient / count for gradient in clipped]

    return value, tf.distribute.get_replica_context().merge_call(clip, args=gradients)


def neighbours(predicted: Any, y: Any) -> Any:
    """A contrastive loss, which takes the other samples for what a sample is not."""
    labels = tf.range(tf.shape(y)[0])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.matmul(predicted, y, transpose_b=True))


def contrasts_its_own(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
    return gradients_of(
        lambda model, x, y: tf.nn.compute_average_loss(neighbours(model(x, training=True), y)), model, x, y
    )


def contrasts_all(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
    gathered = tfdist.gathered(neighbours)
    return gradients_of(
        lambda model, x, y: tf.nn.compute_average_loss(gathered(model(x, training=True), y)), model, x, y
    )


def with_penalty(share: Callable[[Any], Any]) -> Step:
    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        return average(model, x, y) + share(tf.add_n(model.losses))

    return lambda model, x, y, _: gradients_of(loss, model, x, y)


def divides_weights_by_a_known_count(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        return average(model, x, y) + 0.1 * tf.nn.l2_loss(model.trainable_variables[0]) / count

    return gradients_of(loss, model, x, y)


of_means = pytest.mark.skipif(not DIFFERENCES.activity_is_of_a_row, reason="an activity regularizer is a sum there")


def own_share(penalty: Any) -> Any:
    return penalty / tf.distribute.get_replica_context().num_replicas_in_sync


def divides_by_replicas_and_their_rows(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        return tf.reduce_sum(squares(y, model(x, training=True))) / (9 / count * replicas)

    return gradients_of(loss, model, x, y)


def draws_samples_of_its_own(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    """As a discriminator takes noise, of a size that the loop knows."""
    noise = 1e-30 * tf.random.normal([9 // count, 6])

    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        return average(model, x, y) + tf.reduce_sum(tf.square(model(noise, training=True))) / 9

    return gradients_of(loss, model, x, y)


def looks_at_some_rows(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
    """Calls a model with other rows than those of which its penalty is."""

    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        predicted = model(x, training=True)
        some = keras.layers.Softmax()(tf.boolean_mask(predicted, predicted[:, 0] > 1e6))
        penalty = tf.nn.scale_regularization_loss(tf.add_n(model.losses))
        return tf.nn.compute_average_loss(squares(y, predicted)) + penalty + tf.reduce_sum(some)

    return gradients_of(loss, model, x, y)


OTHERS: dict[str, Step] = {
    "clips_its_own": clips_its_own,
    "contrasts_its_own": contrasts_its_own,
    "penalty_as_it_is": with_penalty(lambda penalty: penalty),
    "penalty_by_replicas": with_penalty(own_share),
}
ADDED_UP: dict[str, Step] = {
    "clips_the_mean": clips_the_mean,
    "clips_all_with_a_known_count": clips_all_with_a_known_count,
    "clips_by_merge_call": clips_by_merge_call,
    "contrasts_all": contrasts_all,
    "penalty_by_rows": with_penalty(lambda penalty: tf.nn.scale_regularization_loss(penalty)),
    "divides_by_replicas_and_their_rows": divides_by_replicas_and_their_rows,
    "looks_at_some_rows": looks_at_some_rows,
}


OF_PENALTIES = ("penalty_by_rows", "looks_at_some_rows")


@pytest.mark.parametrize(
    ("name", "drops"),
    [
        slow("clips_its_own", False),
        ("clips_its_own", True),
        # A table of no columns has no class: the last batch would fail.
        ("contrasts_its_own", True),
    ],
)
def test_gradients_that_do_not_add_up_are_told(name: str, drops: bool, told: Callable[[], list[str]]) -> None:
    trained(OTHERS[name], mirrored(3), drops=drops)
    (message,) = told()
    assert "do not add up to the gradient of one device" in message
    assert "Clipping by hand" in message


@of_means
@pytest.mark.parametrize("name", ["penalty_by_replicas", slow("penalty_as_it_is")])
def test_a_penalty_that_is_not_shared_by_rows_is_told_where_replicas_have_other_rows(
    name: str, told: Callable[[], list[str]]
) -> None:
    trained(OTHERS[name], mirrored(3))
    assert any("numbers are not those of one device. Add tf.nn.scale_regularization_loss" in one for one in told())


@of_means
@pytest.mark.parametrize(("name", "says"), [("penalty_by_replicas", 0), slow("penalty_as_it_is", 1)])
def test_a_penalty_may_be_divided_where_replicas_have_as_many_rows(
    name: str, says: int, told: Callable[[], list[str]]
) -> None:
    with strictly(mirrored(3)):
        trained(OTHERS[name], mirrored(3), drops=True)
    assert len([one for one in told() if "as many times too large if it is not" in one]) == len(told()) == says


@pytest.mark.parametrize("step_of", [divides_weights_by_a_known_count, draws_samples_of_its_own])
def test_what_is_the_same_for_any_samples_may_be_divided_by_a_number_that_the_loop_knows(
    step_of: Step, told: Callable[[], list[str]]
) -> None:
    expected = trained(step_of, tf.distribute.get_strategy())
    with strictly(mirrored(3)):
        received = trained(step_of, mirrored(3))
    np.testing.assert_allclose(received, expected, rtol=2e-5)
    (message,) = told()
    assert "a part which is the same for any samples" in message


@of_means
def test_a_mean_is_told_beside_a_penalty_that_is_right(told: Callable[[], list[str]]) -> None:
    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        predicted = model(x, training=True)
        return tf.reduce_mean(squares(y, predicted)) + tf.nn.scale_regularization_loss(tf.add_n(model.losses))

    trained(lambda model, x, y, _: gradients_of(loss, model, x, y), mirrored(3))
    assert any("gets the gradients of a mean over the samples" in one and "has NaN" in one for one in told())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=of_means) if name in OF_PENALTIES else name for name in ADDED_UP]
)
def test_gradients_that_add_up_are_exact_and_not_warned_of(name: str, told: Callable[[], list[str]]) -> None:
    expected = trained(ADDED_UP[name], tf.distribute.get_strategy())
    with strictly(mirrored(3)):
        received = trained(ADDED_UP[name], mirrored(3))
    np.testing.assert_allclose(received, expected, rtol=2e-5)
    assert told() == []


def sums_its_loss(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    value, gradients = clips_its_own(model, x, y, count)
    return tf.distribute.get_replica_context().all_reduce("SUM", value) / count, gradients


def gathers_its_loss(model: keras.Model, x: Any, y: Any, count: int) -> Gradients:
    value, gradients = clips_its_own(model, x, y, count)
    values = tf.distribute.get_replica_context().all_gather(value[tf.newaxis], axis=0)
    return tf.reduce_sum(values) / count, gradients


EXCHANGES = [("ReplicaContextBase.all_reduce", sums_its_loss), ("ReplicaContext.all_gather", gathers_its_loss)]


@pytest.mark.parametrize(("repair", "step_of"), EXCHANGES)
def test_exchanges_of_replicas_do_not_hide_what_is_wrong(
    repair: str, step_of: Step, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    with monkeypatch.context() as without:
        take_out(repair, without)
        trained(step_of, mirrored(3), drops=True)
        assert told() == []
    trained(step_of, mirrored(3), drops=True)
    assert len(told()) == 1


def test_without_its_repair_a_merge_call_looks_wrong(
    monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    take_out("ReplicaContextBase.merge_call", monkeypatch)
    trained(clips_by_merge_call, mirrored(3))
    assert len(told()) == 1


@pytest.mark.parametrize("one_by_one", [False, True])
def test_images_are_equalized_by_their_batch_or_one_by_one(one_by_one: bool) -> None:
    equalize = keras.layers.Equalization(value_range=(0.0, 1.0))
    images = tf.constant(np.random.default_rng(1).uniform(size=(4, 4, 4, 3)), tf.float32)

    def equalized(rows: tf.Tensor, count: int) -> tf.Tensor:
        if not one_by_one:
            return equalize(rows, training=True)
        return tf.stack([equalize(image, training=True) for image in tf.unstack(rows, count)])

    def of_replica() -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return equalized(images[2 * replica : 2 * replica + 2], 2)

    strategy = mirrored(2)
    pieces = strategy.experimental_local_results(tf.function(strategy.run)(of_replica))
    np.testing.assert_allclose(tf.concat(pieces, axis=0), equalized(images, 4), atol=1e-6)


COUNTED = 0


def counting(holder: Any) -> Step:
    """A step whose loss depends on how often it was called."""

    def step(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
        times = holder.count.assign_add(1.0)
        return gradients_of(lambda model, x, y: times * average(model, x, y), model, x, y)

    return step


class Holder:
    """Has a variable of TensorFlow's, of which each replica counts its own copy."""

    def __init__(self) -> None:
        self.count = tf.Variable(0.0, trainable=False, synchronization=tf.VariableSynchronization.ON_READ,
                                 aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)  # fmt: skip


def counts_in_a_function(holder: Any) -> Step:
    """Of functions that are not traced yet a trial calls the Python code."""

    @tf.function
    def count() -> tf.Tensor:
        return holder.count.assign_add(1.0)

    count = count.get_concrete_function()

    def step(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
        times = count()
        return gradients_of(lambda model, x, y: times * average(model, x, y), model, x, y)

    return step


def counts_globally(_: Any) -> Step:
    def step(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
        global COUNTED
        COUNTED += 1
        return gradients_of(average, model, x, y)

    return step


def hidden(holder: Any) -> Any:
    return types.SimpleNamespace(count=holder.count)


COUNTING: dict[str, Callable[[Any], Step]] = {
    "held": counting,
    "hidden": lambda holder: counting(hidden(holder)),
    "in_a_checkpoint": lambda holder: counting(tf.train.Checkpoint(count=holder.count)),
}


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("drops", [False, slow(True)])
def test_a_trial_changes_no_variable_whoever_holds_it(
    name: str, drops: bool, told: Callable[[], list[str]]
) -> None:
    def losses(strategy: tf.distribute.Strategy) -> list[float]:
        with strategy.scope():
            holder = Holder()
        return trained(COUNTING[name](holder), strategy, drops=drops)

    np.testing.assert_allclose(losses(mirrored(3)), losses(tf.distribute.get_strategy()), rtol=2e-5)
    assert all("is not tried out" in one for one in told())


def calls_seen(name: str) -> float:
    """How often a step has counted on each replica, in a variable of the process that is hidden from trials."""
    holder = types.SimpleNamespace(count=tf.Variable(0.0, trainable=False))
    trained(counts_in_a_function(holder) if name == "in_a_function" else counting(holder), mirrored(3))
    return float(holder.count) / 3


@pytest.mark.parametrize(
    ("repair", "name"),
    [("ConcreteFunction._call_flat", "in_a_function"), (f"{ASSIGNMENTS}.assign_add_variable_op", "hidden")],
)
def test_without_its_repair_a_trial_changes_what_it_cannot_restore(
    repair: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 6
    assert calls_seen(name) == steps
    take_out(repair, monkeypatch)
    assert calls_seen(name) > steps


def test_a_trial_restores_names_of_modules() -> None:
    trained(counts_globally(None), mirrored(3))
    traces = COUNTED
    trained(counts_globally(None), mirrored(3), drops=True)
    assert 0 < COUNTED - traces <= traces
    assert traces == 3 * 2, "a trace on each replica, of batches of two sizes"


def test_a_loop_that_draws_in_python_is_left_alone(told: Callable[[], list[str]]) -> None:
    def step(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
        return gradients_of(average, model, x, y) if np.random.rand() < 2.0 else gradients_of(average, model, y, y)

    expected = trained(step, tf.distribute.get_strategy())
    np.testing.assert_allclose(trained(step, mirrored(3)), expected, rtol=2e-5)
    assert told() == []


def test_arguments_that_are_the_same_for_all_replicas_have_no_rows(told: Callable[[], list[str]]) -> None:
    """As many as a replica has rows, and as a trial makes up."""
    strategy = mirrored(3)
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5)])
        optimizer = keras.optimizers.SGD(0.05)

    def on_replica(x: Any, factors: Any, scales: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.square(model(x)) * scales) * tf.reduce_sum(factors) / 9
        optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
        return value

    x, _ = numbers(20)
    data = tf.data.Dataset.from_tensor_slices(x.astype("float32")).batch(9)
    with strictly(strategy):
        for batch in strategy.experimental_distribute_dataset(data):
            strategy.run(on_replica, args=(batch, tf.ones(3), tf.ones(5)))
    assert told() == []


def test_a_loop_that_cannot_be_tried_out_is_named(told: Callable[[], list[str]]) -> None:
    holder = types.SimpleNamespace(count=tf.Variable(0.0, trainable=False))
    trained(counting(holder), mirrored(3))
    (message,) = told()
    assert "is not tried out, and what is wrong is not told: it changes a variable" in message


class Trainer:
    """Has a step that is the same function for all, and what it does of its own."""

    def __init__(self, step_of: Step) -> None:
        self.step_of = step_of

    def step(self, model: keras.Model, optimizer: Any, x: Any, y: Any) -> Any:
        value, gradients = self.step_of(model, x, y, 3)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value


def test_each_trainer_is_tried_out(told: Callable[[], list[str]]) -> None:
    strategy = mirrored(3)
    x, _ = numbers(19)
    data = tf.data.Dataset.from_tensor_slices((x.astype("float32"), x[:, :3].astype("float32"))).batch(9)
    for step_of, messages in ((clips_the_mean, 0), (clips_its_own, 1)):
        with strategy.scope():
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
            optimizer = keras.optimizers.SGD(0.05)
        trainer = Trainer(step_of)
        step = functools.partial(trainer.step, model, optimizer)
        for batch in strategy.experimental_distribute_dataset(data):
            strategy.run(step, args=batch)
        assert len(told()) == messages


@of_means
def test_penalties_of_several_models_are_shared_out_together(told: Callable[[], list[str]]) -> None:
    with mirrored(3).scope():
        inner = keras.layers.Dense(6, kernel_initializer="ones", activity_regularizer="l2", trainable=False)
        inner.build((None, 6))

    def loss(model: keras.Model, x: Any, y: Any) -> Any:
        # Two rows for each sample.
        predicted = model(tf.reshape(tf.stack([inner(x), x], axis=1), [-1, 6]), training=True)[::2]
        penalty = tf.nn.scale_regularization_loss(tf.add_n([*inner.losses, *model.losses]))
        return tf.nn.compute_average_loss(squares(y, predicted)) + penalty

    def step(model: keras.Model, x: Any, y: Any, _: int) -> Gradients:
        return gradients_of(loss, model, x, y)

    np.testing.assert_allclose(trained(step, mirrored(3)), trained(step, tf.distribute.get_strategy()), rtol=2e-5)
    assert told() == []
