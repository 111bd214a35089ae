"""Steps of one's own: `train_step`, `test_step` and `compute_loss` that a script brings along."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import tfdist
from tests.exactness.table import BATCH, EPOCHS, ONLY_TRAINED, case, fitted, numbers

layers = keras.layers


class OwnStep(keras.Model):
    """The step of Keras's guide: compute_loss, a tape, apply_gradients, metrics of one's own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loss_metric = keras.metrics.Mean(name="own_loss")
        self.error = keras.metrics.SparseCategoricalAccuracy(name="own_accuracy")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_metric, self.error]

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.measured(y, y_pred, loss)

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        y_pred = self(x, training=False)
        return self.measured(y, y_pred, self.compute_loss(x=x, y=y, y_pred=y_pred))

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        self.loss_metric.update_state(loss)
        self.error.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}


def of(kind: type[keras.Model], **options: Any) -> keras.Model:
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, activation="tanh", **options)(inputs)
    return kind(inputs, layers.Dense(3, activation="softmax")(hidden))


@case("`train_step` and `test_step` of one's own, `compute_loss` inside")
def own_train_step_and_test_step(samples: int) -> dict[str, Any]:
    settings = {"optimizer": keras.optimizers.SGD(0.3, global_clipnorm=0.1)}
    model = of(OwnStep, kernel_regularizer="l2")
    return fitted(model, *numbers(samples), settings, validation_data=numbers(33, seed=6))


class GuideStep(keras.Model):
    """The lowest level but one of Keras's guide: every metric updated by hand, those of `compile` as one."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.measured(y, y_pred, loss)

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        y_pred = self(x, training=False)
        return self.measured(y, y_pred, self.compute_loss(y=y, y_pred=y_pred))

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        logs = {metric.name: metric.result() for metric in self.metrics}
        return {**logs, "more": {"largest": {"entropy": loss}}}


@case("`train_step` and `test_step` that return the result of `compile`'s metrics, logs in logs")
def own_step_with_nested_logs(samples: int) -> dict[str, Any]:
    settings = {"metrics": ["accuracy", "sparse_categorical_crossentropy"]}
    return fitted(of(GuideStep), *numbers(samples), settings, validation_data=numbers(33, seed=6))


class UntrackedStep(GuideStep):
    """Logs the loss of the batch under the name of a metric that it does not update."""

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        (of_compile,) = (metric for metric in self.metrics if metric.name != "loss")
        of_compile.update_state(y, y_pred)
        return {"loss": loss, of_compile.name: of_compile.result()}


@case("`train_step` and `test_step` that log a loss of their own under the name of Keras's, and logs in logs")
def own_step_that_logs_its_own_loss(samples: int) -> dict[str, Any]:
    return fitted(of(UntrackedStep), *numbers(samples), {"metrics": ["accuracy"]}, validation_data=numbers(33, seed=6))


class OwnTracker(OwnStep):
    """Logs the results of its metrics under other names, as the guide on variational autoencoders does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.total_tracker = keras.metrics.Mean(name="total")
        self.tested_tracker = keras.metrics.Mean(name="tested")

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(y, self(x, training=True)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.total_tracker.update_state(loss)
        return {"loss": self.total_tracker.result()}

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        self.tested_tracker.update_state(keras.losses.sparse_categorical_crossentropy(y, self(x, training=False)))
        return {"loss": self.tested_tracker.result()}


@case("`train_step` and `test_step` of one's own that log metrics under other names")
def own_step_with_renamed_metrics(samples: int) -> dict[str, Any]:
    return fitted(of(OwnTracker), *numbers(samples), validation_data=numbers(33, seed=6))


class OwnMeans(OwnStep):
    """Losses and penalties taken as means with one's own hands, as in the guides on variational autoencoders."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            entropy = ops.mean(keras.losses.sparse_categorical_crossentropy(y, y_pred))
            spread = -0.1 * ops.mean(ops.sum(y_pred * ops.log(y_pred), axis=1))
            loss = entropy + spread + sum(tf.nn.l2_loss(v) for v in self.trainable_variables) * 0.01
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {**self.measured(y, y_pred, loss), "entropy": entropy}


@case("`train_step` of one's own with means taken by hand, `optimizer.apply`")
def own_step_with_means(samples: int) -> dict[str, Any]:
    return fitted(of(OwnMeans), *numbers(samples))


class OwnAverages(OwnStep):
    """Losses taken by the functions of TensorFlow's guide to own loops: an average, and a sum over a fixed size."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            values = keras.losses.sparse_categorical_crossentropy(y, y_pred)
            loss = tf.nn.compute_average_loss(values)
            loss += tf.nn.compute_average_loss(values * x[:, 0] ** 2, global_batch_size=BATCH)
            loss += tf.nn.scale_regularization_loss([0.01 * tf.nn.l2_loss(v) for v in self.trainable_variables])
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.measured(y, y_pred, loss)


@case("`train_step` of one's own with `tf.nn.compute_average_loss`, `tf.nn.scale_regularization_loss`")
def own_step_with_average_losses(samples: int) -> dict[str, Any]:
    return fitted(of(OwnAverages), *numbers(samples))


class OwnCounts(OwnStep):
    """Losses divided by the number of replicas, as scripts for several devices have it: by 1 on one."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        context = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            values = keras.losses.sparse_categorical_crossentropy(y, y_pred)
            loss = tf.reduce_mean(values) / tf.distribute.get_strategy().num_replicas_in_sync
            loss += tf.reduce_mean(values * x[:, 0] ** 2) / (1 if context is None else context.num_replicas_in_sync)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.measured(y, y_pred, loss)


@case("`train_step` of one's own that divides by the number of replicas")
def own_step_that_counts_replicas(samples: int) -> dict[str, Any]:
    return fitted(of(OwnCounts), *numbers(samples))


class OwnSums(OwnStep):
    """A loss that is a sum over samples, and declared so."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = tfdist.summed(ops.sum(keras.losses.sparse_categorical_crossentropy(y, y_pred)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.measured(y, y_pred, loss)


@case("`train_step` of one's own with `tfdist.summed`")
def own_step_with_a_declared_sum(samples: int) -> dict[str, Any]:
    return fitted(of(OwnSums), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.003)})


class OwnVector(OwnStep):
    """One loss a sample: TensorFlow takes the gradient of their sum, as the example of a siamese network has it."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = 0.03 * keras.losses.sparse_categorical_crossentropy(y, y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.measured(y, y_pred, loss)


@case("`train_step` of one's own with one loss a sample, whose gradients are summed")
def own_step_with_a_loss_a_sample(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    hidden = layers.BatchNormalization()(layers.Dense(8, activation="tanh")(inputs))
    return fitted(OwnVector(inputs, layers.Dense(3, activation="softmax")(hidden)), *numbers(samples))


class Triplets(keras.Model):
    """The example of a siamese network: its step takes the three parts of a batch together, and so does its call."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(3)])
        self.loss_metric = keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_metric]

    def call(self, parts: Any) -> Any:
        anchor, near, far = (self.embedding(part) for part in parts)
        return ops.sum(ops.square(anchor - near), axis=-1), ops.sum(ops.square(anchor - far), axis=-1)

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            near, far = self(data)
            loss = 0.01 * ops.maximum(near - far + 0.5, 0.0)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.loss_metric.update_state(loss)
        return {"loss": self.loss_metric.result()}


@case("`train_step` of one's own on triplets, which the model's `call` takes together")
def own_step_of_triplets(samples: int) -> dict[str, Any]:
    x, _ = numbers(samples)
    model = Triplets()
    model.compile(optimizer=keras.optimizers.SGD(0.3))
    data = tf.data.Dataset.from_tensor_slices((x, x + 0.1, x[::-1])).batch(BATCH)
    history = model.fit(data, epochs=EPOCHS, verbose=0).history
    return {"model": model, "x": x, "history": history} | ONLY_TRAINED


class GatheredContrast(OwnStep):
    """A contrastive loss of all samples with all, in a function that takes the rows of all replicas."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = tfdist.gathered(self.contrast)(y_pred, x[:, :3]) + self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.measured(y, y_pred, loss)

    def contrast(self, rows: Any, others: Any) -> Any:
        logits = ops.matmul(rows, ops.transpose(others))
        return ops.mean(keras.losses.sparse_categorical_crossentropy(ops.arange(ops.shape(rows)[0]), logits, True))


@case("`train_step` of one's own with a contrastive loss in `tfdist.gathered`")
def own_step_with_a_gathered_contrast(samples: int) -> dict[str, Any]:
    return fitted(of(GatheredContrast), *numbers(samples))


class ContrastInAMethod(OwnStep):
    """A contrastive loss a sample in a method that updates a metric with its logits, as in Keras's SimCLR."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.contrast(y_pred, x[:, :3])
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.loss_metric.update_state(loss)
        return {metric.name: metric.result() for metric in self.metrics}

    def contrast(self, rows: Any, others: Any) -> Any:
        logits, matches = ops.matmul(rows, ops.transpose(others)), ops.arange(ops.shape(rows)[0])
        self.error.update_state(matches, logits)
        return keras.losses.sparse_categorical_crossentropy(matches, logits, True)


@case("the same in a method that `train_step` calls, with a metric of its logits")
def own_step_with_a_contrast_in_a_method(samples: int) -> dict[str, Any]:
    return fitted(of(ContrastInAMethod), *numbers(samples))


class StandardizingStep(OwnStep):
    """Two methods that each take the samples together, one with rows and one with a scalar."""

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, **options: Any) -> Any:
        return self.spread(y_pred) + super().compute_loss(x=x, y=y, y_pred=ops.softmax(self.centered(y_pred)))

    def centered(self, rows: Any) -> Any:
        return rows - ops.mean(rows, axis=0)

    def spread(self, rows: Any) -> Any:
        return ops.mean(ops.relu(1 - ops.var(rows, axis=0)))


@case("two methods of a step that each take the samples together")
def own_step_with_two_methods_that_couple(samples: int) -> dict[str, Any]:
    return fitted(of(StandardizingStep), *numbers(samples))


class OwnTotals(OwnStep):
    """Metrics of the scalars of a step: a mean of losses, and a sum that counts the batches' losses."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.total = keras.metrics.Sum(name="total")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_metric, self.error, self.total]

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        self.total.update_state(loss)
        return super().measured(y, y_pred, loss)


@case("`train_step` of one's own with `Mean` and `Sum` of its loss")
def own_step_with_a_total(samples: int) -> dict[str, Any]:
    return fitted(of(OwnTotals), *numbers(samples))


class OwnLoss(keras.Model):
    """`compute_loss` of one's own under Keras's steps."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        return ops.mean(ops.square(y_pred - ops.one_hot(y, 3))) + 0.1 * super().compute_loss(
            x, y, y_pred, sample_weight, training
        )


@case("`compute_loss` of one's own")
def own_compute_loss(samples: int) -> dict[str, Any]:
    settings = {"metrics": ["accuracy"]}
    return fitted(of(OwnLoss, kernel_regularizer="l2", activity_regularizer="l2"), *numbers(samples), settings)


class Adversaries(keras.Model):
    """A generator and a discriminator with an optimizer each; the noise is in the data, so that it is everybody's."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential([keras.Input((3,)), layers.Dense(5, "relu"), layers.Dense(3)])
        self.discriminator = keras.Sequential([keras.Input((3,)), layers.Dense(7, "relu"), layers.Dense(1)])
        self.generator_loss = keras.metrics.Mean(name="generator_loss")
        self.discriminator_loss = keras.metrics.Mean(name="discriminator_loss")
        self.built = True

    def compile(self, **options: Any) -> None:
        super().compile()
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)
        self.generator_optimizer = keras.optimizers.Adam(0.01)
        self.discriminator_optimizer = keras.optimizers.Adam(0.02, clipnorm=0.5)

    def call(self, inputs: Any) -> Any:
        return self.discriminator(self.generator(inputs[:, 3:]))

    def train_step(self, data: Any) -> dict[str, Any]:
        real, noise = data[0][:, :3], data[0][:, 3:]
        count = ops.shape(real)[0]
        both = ops.concatenate([self.generator(noise), real])
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))])
        with tf.GradientTape() as tape:
            d_loss = self.entropy(labels, self.discriminator(both))
        self.descend(self.discriminator_optimizer, tape, d_loss, self.discriminator)
        with tf.GradientTape() as tape:
            g_loss = self.entropy(ops.zeros((count, 1)), self.discriminator(self.generator(noise)))
        self.descend(self.generator_optimizer, tape, g_loss, self.generator)
        self.generator_loss.update_state(g_loss)
        self.discriminator_loss.update_state(d_loss)
        return {"generator_loss": self.generator_loss.result(), "discriminator_loss": self.discriminator_loss.result()}

    def descend(self, optimizer: Any, tape: Any, loss: Any, model: keras.Model) -> None:
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


@case("generator and discriminator with an optimizer each")
def adversaries_with_two_optimizers(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    model = Adversaries()
    model.compile()
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    model.optimizer = model.generator_optimizer
    return {"model": model, "x": x, "y": None, "history": history.history, "evaluate": False}


class NoisyAdversaries(Adversaries):
    """As in Keras's guide: a batch of made and one of real samples in one, with dropout, and labels with noise."""

    def __init__(self) -> None:
        super().__init__()
        self.discriminator = keras.Sequential(
            [keras.Input((3,)), layers.Dense(7, "relu"), layers.Dropout(0.3, seed=5), layers.Dense(1)]
        )
        self.seeds = keras.random.SeedGenerator(6)

    def train_step(self, data: Any) -> dict[str, Any]:
        real = data[0][:, :3]
        count = ops.shape(real)[0]
        both = ops.concatenate([self.generator(keras.random.normal((count, 3), seed=self.seeds)), real])
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))])
        labels += 0.05 * keras.random.uniform(ops.shape(labels), seed=self.seeds)
        with tf.GradientTape() as tape:
            d_loss = self.entropy(labels, self.discriminator(both, training=True))
        self.descend(self.discriminator_optimizer, tape, d_loss, self.discriminator)
        noise = keras.random.normal((count, 3), seed=self.seeds)
        with tf.GradientTape() as tape:
            g_loss = self.entropy(ops.zeros((count, 1)), self.discriminator(self.generator(noise)))
        self.descend(self.generator_optimizer, tape, g_loss, self.generator)
        self.generator_loss.update_state(g_loss)
        self.discriminator_loss.update_state(d_loss)
        return {"generator_loss": self.generator_loss.result(), "discriminator_loss": self.discriminator_loss.result()}


@case("the same with dropout and noise of two batches in one")
def adversaries_with_noise_of_two_batches(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    model = NoisyAdversaries()
    model.compile()
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    model.optimizer = model.generator_optimizer
    return {"model": model, "x": x, "y": None, "history": history.history, "evaluate": False}


class ReducesItself(OwnStep):
    """Averages what the loss of `compile` leaves unreduced, as guides on captions and translation do."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = ops.mean(self.loss(y, self(x, training=True)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.loss_metric.update_state(loss)
        return {"loss": self.loss_metric.result()}


@case("`train_step` of one's own that averages a loss without a reduction")
def own_step_with_an_unreduced_loss(samples: int) -> dict[str, Any]:
    settings = {"loss": keras.losses.SparseCategoricalCrossentropy(reduction=None)}
    return fitted(of(ReducesItself), *numbers(samples), settings) | ONLY_TRAINED


class OfInputs(keras.Model):
    """Trains on its inputs alone."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self(x, training=True)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


@case("`train_on_batch` without targets, of a step of one's own")
def own_step_on_batches_without_targets(samples: int) -> dict[str, Any]:
    x, _ = numbers(samples)
    inputs = keras.Input((6,))
    model = OfInputs(inputs, layers.Dense(3)(inputs))
    model.compile(keras.optimizers.SGD(0.1))
    losses = [model.train_on_batch(x[start : start + 13], return_dict=True)["loss"] for start in (0, 13, 26)]
    return {"model": model, "x": x, "history": {"loss": np.asarray(losses).tolist()}} | ONLY_TRAINED
