"""Which of the user's metrics add up over the replicas, and which have to be gathered, as a trial finds out."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.devices.mirrored import mirrored
from tests.exactness.comparison import assert_same
from tests.exactness.table import classifier, numbers
from tests.marks import slow
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.forward.metric_additivity import Merge, try_out

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES, BATCH = 65, 32
Mean, Sum = keras.metrics.Mean, keras.metrics.Sum


def error(y_true: Any, y_pred: Any) -> Any:
    """One value a sample."""
    return tf.reduce_mean(tf.square(tf.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


def hits(y_true: Any, y_pred: Any) -> Any:
    """One value a sample, of labels that are classes or one-hot."""
    classes = y_true if len(y_true.shape) < len(y_pred.shape) else ops.argmax(y_true, axis=-1)
    return ops.cast(ops.cast(classes, "int64") == ops.cast(ops.argmax(y_pred, axis=-1), "int64"), "float64")


class PeakRatio(Mean):
    """The signal-to-noise ratio of each sample, as of images."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(-10.0 * tf.math.log(error(y_true, y_pred)) / np.log(10.0), sample_weight)


class PeakRatioOfBatches(Mean):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_mean(-10.0 * tf.math.log(error(y_true, y_pred)) / np.log(10.0)))


class SumOfMeans(Sum):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_mean(error(y_true, y_pred)))


class SumOfSums(Sum):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_sum(error(y_true, y_pred)))


class Weighted(Mean):
    """A mean over the samples of a batch that counts by their number."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        count = tf.cast(tf.shape(y_pred)[0], y_pred.dtype)
        super().update_state(tf.math.divide_no_nan(tf.reduce_sum(error(y_true, y_pred)), count), sample_weight=count)


class MadeOfOthers(keras.metrics.Metric):
    """A ratio of two totals, each a metric of Keras's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.errors, self.sizes = Sum(), Sum()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.errors.update_state(tf.reduce_sum(error(y_true, y_pred)))
        self.sizes.update_state(tf.reduce_sum(tf.square(y_pred)))

    def result(self) -> Any:
        return self.errors.result() / self.sizes.result()


class Wrapped(keras.metrics.MeanMetricWrapper):
    def __init__(self, **options: Any) -> None:
        super().__init__(lambda y_true, y_pred: tf.reduce_mean(error(y_true, y_pred)), **options)


class WrappedVector(keras.metrics.MeanMetricWrapper):
    """One value a class, rather than one a sample."""

    def __init__(self, **options: Any) -> None:
        super().__init__(lambda y_true, y_pred: tf.reduce_mean(y_pred, axis=0), **options)


class State(keras.metrics.Metric):
    """One number, from zero."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.state = self.add_variable((), "zeros", name="state")

    def result(self) -> Any:
        return self.state


class Hits(State):
    """How many predictions are right."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign_add(ops.sum(ops.cast(hits(y_true, y_pred), self.dtype)))


class RootOfBatches(Mean):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.sqrt(tf.reduce_mean(error(y_true, y_pred))))


class OfBoth(keras.metrics.Metric):
    """Scalars of both kinds, which cannot be told apart."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.means, self.sums = Mean(), Sum()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.means.update_state(tf.reduce_mean(error(y_true, y_pred)))
        self.sums.update_state(tf.reduce_sum(error(y_true, y_pred)))

    def result(self) -> Any:
        return self.means.result() + self.sums.result()


class Never(State):
    """Probabilities above one: on no made-up value is there anything to see."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign_add(tf.reduce_sum(tf.cast(y_pred > 1e6, self.dtype)))


class MostHits(State):
    """From zero one update shows the number of hits, which is a sum."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.maximum(self.state, ops.sum(ops.cast(hits(y_true, y_pred), self.dtype))))


class LastBatch(State):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.cast(ops.sum(y_pred), self.dtype))


class MeanOfBatches(State):
    """Counts the batches by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.batches = self.add_variable((), "zeros", name="batches")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign_add(ops.cast(ops.mean(error(y_true, y_pred)), self.dtype))
        self.batches.assign_add(1.0)

    def result(self) -> Any:
        return self.state / self.batches


class Least(State):
    """Begins with what is no zero."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.minimum(self.state, ops.cast(ops.min(y_pred), self.dtype)))

    def reset_state(self) -> None:
        self.state.assign(2.0)


class NothingOfNothing(State):
    """A sum over samples, but for a batch without one: there it is no number."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        samples = ops.cast(ops.shape(y_pred)[0], self.dtype)
        self.state.assign_add(samples * ops.cast(ops.mean(y_pred), self.dtype))


class CoupledByWeights(State):
    """A sum over samples, until there are weights, of which it takes the largest."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        total = ops.cast(ops.sum(y_pred), self.dtype)
        self.state.assign_add(total if sample_weight is None else total * ops.cast(ops.max(sample_weight), self.dtype))


class AcrossRows(State):
    """The one of Keras's guide: labels of shape (samples,) meet predictions of shape (samples, 1)."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        classes = ops.reshape(ops.argmax(y_pred, axis=1), (-1, 1))
        same = ops.cast(ops.cast(y_true, "int32") == ops.cast(classes, "int32"), self.dtype)
        self.state.assign_add(ops.sum(same))


def largest(y_true: Any, y_pred: Any) -> Any:
    return ops.max(ops.abs(y_true - y_pred))


def median(y_true: Any, y_pred: Any) -> Any:
    return ops.median(y_pred)


def total(y_true: Any, y_pred: Any) -> Any:
    """Keras takes the mean of the batches' totals."""
    return ops.sum(ops.abs(y_true - y_pred))


def of_function(function: Callable[..., Any]) -> Callable[..., keras.metrics.Metric]:
    return functools.partial(keras.metrics.MeanMetricWrapper, function)


ADDED_UP = {
    PeakRatio: Merge.SUMS,
    PeakRatioOfBatches: Merge.MEANS,
    SumOfMeans: Merge.MEANS,
    SumOfSums: Merge.SUMS,
    Weighted: Merge.SUMS,
    MadeOfOthers: Merge.SUMS,
    Wrapped: Merge.MEANS,
    WrappedVector: Merge.MEANS,
    Hits: Merge.SUMS,
}
GATHERED = [RootOfBatches, OfBoth, Never, MostHits, LastBatch, MeanOfBatches, Least, NothingOfNothing]
GATHERED += [CoupledByWeights]
FUNCTIONS = [largest, median, total]


def measured() -> dict[str, Any]:
    """All metrics over a training, an evaluation and, where they have been tried out already, another training."""
    keras.utils.set_random_seed(11)
    x, y = numbers(SAMPLES)
    y = keras.utils.to_categorical(y, 3)
    model = classifier()
    metrics = [metric(name=metric.__name__) for metric in (*ADDED_UP, *GATHERED)]
    model.compile("sgd", "categorical_crossentropy", metrics=[*metrics, *FUNCTIONS])
    fit = functools.partial(model.fit, x, y, batch_size=BATCH, shuffle=False, verbose=0)
    first = fit().history
    evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    return {"first": first, "evaluated": evaluated, "second": fit().history}


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_each_is_exact(replicas: int) -> None:
    expected = measured()
    assert {metric.__name__ for metric in (*ADDED_UP, *GATHERED)} <= expected["first"].keys()
    with mirrored(replicas).scope():
        assert_same(expected, measured())


def verdict(metric: keras.metrics.Metric, *shapes: tuple[int | None, ...], **more: Any) -> Any:
    """What the trial says of a metric that is given tensors of these shapes."""
    seen = []

    @tf.function(input_signature=[tf.TensorSpec(shape, dtype) for shape, dtype in shapes])
    def step(*tensors: tf.Tensor) -> None:
        seen.append(try_out(metric, tensors, more))

    step.get_concrete_function()
    return seen[0]


CLASSES = (((None, 3), tf.float32), ((None, 3), tf.float32))
SPARSE = (((None,), tf.int64), ((None, 10), tf.float32))


@pytest.mark.parametrize(("metric", "merge"), ADDED_UP.items())
def test_what_scalars_are_taken_for(metric: type[keras.metrics.Metric], merge: Merge) -> None:
    assert verdict(metric(name="measured"), *CLASSES).merge is merge


@pytest.mark.parametrize("make", [*GATHERED, *map(of_function, FUNCTIONS)])
def test_what_adds_up_in_neither_way_is_gathered(make: Callable[..., keras.metrics.Metric]) -> None:
    assert verdict(make(), *CLASSES).merge is Merge.GATHERED


@pytest.mark.parametrize(("metric", "merge"), [(Hits, Merge.SUMS), (MostHits, Merge.GATHERED)])
@pytest.mark.parametrize("labels", [(None,), (None, 1)])
def test_ten_classes_are_hit(metric: type[State], merge: Merge, labels: tuple[None, ...]) -> None:
    if labels == (None, 1):
        flat = lambda y_true, y_pred: ops.reshape(y_true, (-1,))  # noqa: E731
        kind = type(metric.__name__, (metric,), {"update_state": lambda self, y_true, y_pred, sample_weight=None: (
            metric.update_state(self, flat(y_true, y_pred), y_pred))})  # fmt: skip
    else:
        kind = metric
    assert verdict(kind(), (labels, tf.int64), SPARSE[1]).merge is merge


def test_rows_that_meet_are_gathered() -> None:
    assert verdict(AcrossRows(), *SPARSE).merge is Merge.GATHERED


@pytest.mark.parametrize(
    "metric",
    [keras.metrics.MeanSquaredError, keras.metrics.CategoricalAccuracy, keras.metrics.AUC, keras.metrics.R2Score],
)
def test_sums_over_samples_are_recognised(metric: type[keras.metrics.Metric]) -> None:
    tried = metric()
    values = np.zeros((4, 3), "float32")
    tried.update_state(values, values)
    tried.reset_state()
    assert verdict(tried, *CLASSES).merge is not Merge.GATHERED
    assert all(np.all(np.asarray(variable) == 0) for variable in tried.variables), "the trial must leave no trace"


def test_a_trial_leaves_no_trace() -> None:
    class Counting(Hits):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.calls = 7

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.calls += 1
            super().update_state(y_true, y_pred)

    metric = Counting()
    assert verdict(metric, *CLASSES).merge is Merge.SUMS
    assert metric.calls == 7
    assert float(metric.state) == 0.0


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What tfdist logs."""
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    caplog.set_level(logging.INFO, "tfdist")
    yield caplog
    logger.removeHandler(caplog.handler)


def test_one_line_says_what_is_gathered(said: pytest.LogCaptureFixture) -> None:
    x, y = numbers(8)
    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=[Hits(name="hits"), MostHits(name="most")])
        model.fit(x, y, epochs=2, verbose=0)
        model.evaluate(x, y, verbose=0)
    (line,) = {record.getMessage() for record in said.records if "computed on the rows of all replicas" in record.msg}
    assert "'most' (MostHits) is no sum over samples" in line


class OfStrings(State):
    def update_state(self, words: Any) -> None:
        self.state.assign(ops.maximum(self.state, ops.cast(tf.reduce_max(tf.strings.length(words)), self.dtype)))


def test_what_cannot_be_gathered_is_refused() -> None:
    with mirrored(2).scope():
        metric = OfStrings(name="words")
        with pytest.raises(UnsupportedError, match="'words'.*string"):
            mirrored(2).run(tf.function(lambda: metric.update_state(tf.constant(["a", "bcd"]))))


def test_a_metric_keeps_its_signature() -> None:
    assert inspect.signature(Hits().update_state) == inspect.signature(functools.partial(Hits.update_state, None))


def numbers_of_a_loop(strategy: tf.distribute.Strategy | None) -> list[float]:
    """Two epochs of a loop by hand, whose global batches have 5 rows."""
    data = np.random.default_rng(4).normal(size=(10, 3))
    metrics = [MostHits(), MeanOfBatches(), PeakRatioOfBatches(), Least(), Hits()]

    def step(rows: tf.Tensor) -> None:
        for metric in metrics:
            metric.update_state(tf.roll(rows, 1, axis=1), rows)

    def on_rows(rows: np.ndarray) -> None:
        if strategy is None:
            step(tf.constant(rows))
            return
        cut = [(0, 1), (1, 5)]
        strategy.run(
            tf.function(step),
            (strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(rows[slice(*cut[context.replica_id_in_sync_group])])
            ),),
        )  # fmt: skip

    results = []
    for _ in range(2):
        for metric in metrics:
            metric.reset_state()
        for start in (0, 5):
            on_rows(data[start : start + 5])
        results += [float(metric.result()) for metric in metrics]
    return results


def test_loops_by_hand() -> None:
    expected = numbers_of_a_loop(None)
    with mirrored(2).scope():
        np.testing.assert_allclose(numbers_of_a_loop(mirrored(2)), expected, rtol=1e-9)
