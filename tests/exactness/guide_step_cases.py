"""Steps as guides and repositories have them: contrast with a memory, two passes, mixed samples, sampled actions."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

import tfdist
from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import BATCH, EPOCHS, ONLY_TRAINED, case, fitted, numbers

layers = keras.layers


def fitted_by_hand(model: keras.Model, samples: int) -> dict[str, Any]:
    """Fits a model whose step needs no loss of `compile`."""
    x, y = numbers(samples)
    model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0).history
    return {"model": model, "x": x, "history": history} | ONLY_TRAINED


def encoder() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(4)])


class MomentumContrast(OwnStep):
    """A queue of keys, of which the oldest give way, and an encoder that follows the other (He et al. 2019)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.query, self.key = encoder(), encoder()
        self.key.trainable = False
        self.queue = self.add_weight(shape=(16, 4), initializer="random_normal", trainable=False, name="queue")

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        keys = ops.normalize(self.key(x + 0.1, training=False), axis=1)
        with tf.GradientTape() as tape:
            queries = ops.normalize(self.query(x, training=True), axis=1)
            own = ops.sum(queries * keys, axis=1, keepdims=True)
            logits = ops.concatenate([own, ops.matmul(queries, ops.transpose(self.queue))], axis=1) / 0.2
            labels = ops.zeros((ops.shape(x)[0],), "int32")
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))
        self.optimizer.apply(tape.gradient(loss, self.query.trainable_weights), self.query.trainable_weights)
        for own_weight, other in zip(self.key.weights, self.query.weights, strict=True):
            own_weight.assign(0.9 * own_weight + 0.1 * other)
        self.queue.assign(tfdist.gathered(self.with_newest)(keys))
        self.loss_metric.update_state(loss)
        return {"own_loss": self.loss_metric.result()}

    def with_newest(self, keys: Any) -> Any:
        return ops.reshape(ops.concatenate([keys, self.queue], axis=0)[:16], (16, 4))


@case("momentum contrast: a queue of keys, an encoder that follows the other")
def momentum_contrast(samples: int) -> dict[str, Any]:
    return fitted_by_hand(of(MomentumContrast), samples)


class OwnLatent(OwnStep):
    """Predicts what a target network makes of another view, whose weights follow its own (Grill et al. 2020)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.online, self.target = encoder(), encoder()
        self.head = keras.Sequential([keras.Input((4,)), layers.BatchNormalization(), layers.Dense(4)])
        self.augment = layers.GaussianNoise(0.1, seed=3)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, _ = data[:2]
        one, other = self.augment(x, training=True), self.augment(x, training=True)
        trained = self.online.trainable_weights + self.head.trainable_weights
        with tf.GradientTape() as tape:
            loss = self.apart(one, other) + self.apart(other, one)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained, strict=True))
        for own, followed in zip(self.target.weights, self.online.weights, strict=True):
            own.assign(0.95 * own + 0.05 * followed)
        self.loss_metric.update_state(loss)
        return {"own_loss": self.loss_metric.result()}

    def apart(self, one: Any, other: Any) -> Any:
        predicted = ops.normalize(self.head(self.online(one, training=True), training=True), axis=1)
        target = ops.stop_gradient(ops.normalize(self.target(other, training=True), axis=1))
        return 2 - 2 * ops.mean(ops.sum(predicted * target, axis=1))


@case("bootstrap of one's own latent: two views, a head, a target network")
def bootstrapped_latent(samples: int) -> dict[str, Any]:
    return fitted_by_hand(of(OwnLatent), samples)


class Mixing(OwnStep):
    """Mixes samples, and weighs classes by hand in a focal loss."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        mixed, target = tfdist.gathered(self.mixed)(x, ops.one_hot(y, 3, dtype="float64"))
        with tf.GradientTape() as tape:
            y_pred = ops.clip(self(mixed, training=True), 1e-7, 1.0)
            weights = ops.convert_to_tensor([0.2, 0.5, 0.3], "float64")
            loss = ops.mean(ops.sum(-weights * target * ops.log(y_pred) * (1 - y_pred) ** 2, axis=1))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.measured(y, y_pred, loss)

    def mixed(self, x: Any, target: Any) -> tuple[Any, Any]:
        order = keras.random.shuffle(ops.arange(ops.shape(x)[0]), seed=4)
        part = keras.random.beta((ops.shape(x)[0], 1), 0.4, 0.4, seed=5)
        return tuple(part * one + (1 - part) * ops.take(one, order, axis=0) for one in (x, target))


@case("samples mixed in a step, a focal loss with weights of classes by hand")
def mixed_samples_and_focal_loss(samples: int) -> dict[str, Any]:
    return fitted(of(Mixing), *numbers(samples)) | ONLY_TRAINED


class Reinforced(OwnStep):
    """Samples actions and follows the logarithm of their probability, less a baseline (Williams 1992)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seeds = keras.random.SeedGenerator(8)
        self.baseline = tf.Variable(0.0, dtype="float64", trainable=False)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            logits = ops.log(self(x, training=True))
            actions = keras.random.categorical(logits, 1, dtype="int32", seed=self.seeds)[:, 0]
            reward = ops.cast(actions == ops.cast(y, "int32"), "float64")
            chosen = ops.sum(ops.one_hot(actions, 3, dtype="float64") * logits, axis=1)
            loss = -ops.mean(chosen * (reward - self.baseline))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.baseline.assign(tfdist.gathered(lambda reward: 0.9 * self.baseline + 0.1 * ops.mean(reward))(reward))
        self.loss_metric.update_state(loss)
        return {"own_loss": self.loss_metric.result(), "reward": ops.mean(reward)}


@case("actions that are sampled, the logarithm of their probability, a moving baseline")
def reinforced_actions(samples: int) -> dict[str, Any]:
    return fitted_by_hand(of(Reinforced), samples)


class Scheduled(keras.Model):
    """A variational autoencoder whose divergence counts more from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = layers.Dense(4), layers.Dense(6)
        self.encoder.build((None, 6))
        self.decoder.build((None, 2))
        self.seeds = keras.random.SeedGenerator(8)
        self.weight = keras.Variable(0.0, dtype="float64", trainable=False, name="weight")
        self.total, self.divergence = keras.metrics.Mean(name="total"), keras.metrics.Mean(name="divergence")

    def train_step(self, data: Any) -> dict[str, Any]:
        x = data[0]
        with tf.GradientTape() as tape:
            mean, log_variance = ops.split(self.encoder(x), 2, axis=1)
            noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
            made = self.decoder(mean + ops.exp(0.5 * log_variance) * noise)
            divergence = -0.5 * ops.mean(ops.sum(1 + log_variance - mean**2 - ops.exp(log_variance), axis=1))
            loss = ops.mean(ops.sum((x - made) ** 2, axis=1)) + self.weight * divergence
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        self.weight.assign(ops.minimum(self.weight + 0.05, 1.0))
        self.total.update_state(loss)
        self.divergence.update_state(divergence)
        return {metric.name: metric.result() for metric in self.metrics} | {"weight": self.weight}


@case("a variational autoencoder whose divergence a variable weighs")
def scheduled_divergence(samples: int) -> dict[str, Any]:
    model = Scheduled()
    model.built = True
    return fitted_by_hand(model, samples)


class SharpnessAware(OwnStep):
    """Two passes: the gradient is that where the weights are moved along the first one (Foret et al. 2020)."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        gradients, y_pred, loss = tfdist.gathered(self.sharp)(x, y)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.measured(y, y_pred, loss)

    def sharp(self, x: Any, y: Any) -> Any:
        first, y_pred, loss = self.gradients_at(x, y)
        norm = tf.linalg.global_norm(first)
        moves = [0.05 * gradient / norm for gradient in first]
        for weight, move in zip(self.trainable_variables, moves, strict=True):
            weight.assign_add(move)
        second, *_ = self.gradients_at(x, y)
        for weight, move in zip(self.trainable_variables, moves, strict=True):
            weight.assign_sub(move)
        return second, y_pred, loss

    def gradients_at(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(y, y_pred))
        return tape.gradient(loss, self.trainable_variables), y_pred, loss


@case("sharpness-aware minimization, two passes in `tfdist.gathered`")
def sharpness_aware(samples: int) -> dict[str, Any]:
    return fitted(of(SharpnessAware), *numbers(samples)) | ONLY_TRAINED


class IsReal(keras.losses.Loss):
    """Called with the predictions first, and whether all of them are of real samples."""

    def call(self, y_pred: Any, is_real: Any) -> Any:
        return keras.losses.Hinge()(2 * is_real - 1, y_pred)


class Telling(OwnStep):
    """Tells samples from noise, as the discriminator of a GauGAN does (Park et al. 2019)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_real = IsReal()

    def train_step(self, data: Any) -> dict[str, Any]:
        x, _ = data[:2]
        with tf.GradientTape() as tape:
            of_real, of_others = self(x, training=True), self(x[:, ::-1] - 1.0, training=True)
            loss = 0.5 * (self.is_real(of_real, True) + self.is_real(of_others, False))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        self.loss_metric.update_state(loss)
        return {"own_loss": self.loss_metric.result()}


@case("a loss that is called with predictions and whether they are of real samples")
def loss_of_predictions_and_a_number(samples: int) -> dict[str, Any]:
    return fitted_by_hand(of(Telling), samples)


class Experts(layers.Layer):
    """Counts in a variable of TensorFlow's which expert was chosen how often, and keeps what is to be added to the loss
    in attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = [layers.Dense(4) for _ in range(3)]
        self.gate = layers.Dense(3)
        self.chosen = tf.Variable(tf.zeros([3], keras.config.floatx()), trainable=False)

    def build(self, shape: Any) -> None:
        for layer in (*self.experts, self.gate):
            layer.build(shape)

    def call(self, x: Any) -> Any:
        gates = ops.softmax(self.gate(x))
        places = ops.argmax(gates, axis=1)
        self.chosen.assign_add(tf.reduce_sum(tf.one_hot(places, 3, dtype=self.chosen.dtype), axis=0))
        self.overflow = tf.reduce_mean(tf.nn.relu(tf.convert_to_tensor(self.chosen) - 20.0))
        self.imbalance = ops.var(ops.sum(gates, axis=0))
        return ops.sum(ops.stack([expert(x) for expert in self.experts], axis=1) * gates[:, :, None], axis=1)


class Balancing(OwnStep):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.mixture, self.head = Experts(), layers.Dense(1)
        self.mixture.build((None, 6))
        self.head.build((None, 4))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        weights = self.mixture.trainable_weights + self.head.trainable_weights
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self.head(self.mixture(x))[:, 0] - ops.cast(y, self.compute_dtype)))
            loss += 0.01 * (self.mixture.imbalance + self.mixture.overflow)
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        self.loss_metric.update_state(loss)
        return {"own_loss": self.loss_metric.result()}


@case("experts of which a layer counts how often they are chosen, and keeps their balance for the step")
def experts_that_are_counted(samples: int) -> dict[str, Any]:
    return fitted_by_hand(of(Balancing), samples)
