"""Steps and optimizers as people write them themselves; see `own_parts`."""

from __future__ import annotations

import keras
import tensorflow as tf

ops = keras.ops


class OwnStep(keras.Model):
    """A step as in Keras's guides."""

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
            scaled = self.optimizer.scale_loss(loss)
        self.optimizer.apply(tape.gradient(scaled, self.trainable_weights), self.trainable_weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred, sample_weight=sample_weight)
        return {metric.name: metric.result() for metric in self.metrics}


class TapeStep(OwnStep):
    """A step whose gradients are of all weights, dense, so that they can be computed with."""

    def gradients_of(self, x, y, sample_weight):
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        gradients = tape.gradient(loss, self.trainable_weights, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in gradients], y_pred, loss

    def measured(self, loss, **more):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
        return {metric.name: metric.result() for metric in self.metrics} | more


class SharpStep(TapeStep):
    """A second pass at weights that were moved along the gradient, by its norm."""

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        first, _, _ = self.gradients_of(x, y, sample_weight)
        norm = tf.linalg.global_norm(first)
        moves = [0.05 * gradient / tf.cast(norm + 1e-6, gradient.dtype) for gradient in first]
        for weight, move in zip(self.trainable_weights, moves, strict=True):
            weight.assign_add(move)
        second, _, loss = self.gradients_of(x, y, sample_weight)
        for weight, move in zip(self.trainable_weights, moves, strict=True):
            weight.assign_sub(move)
        self.optimizer.apply(second, self.trainable_weights)
        return self.measured(loss, norm=norm)


class ClippedStep(TapeStep):
    def train_step(self, data):
        gradients, _, loss = self.gradients_of(*keras.utils.unpack_x_y_sample_weight(data))
        clipped, norm = tf.clip_by_global_norm(gradients, 0.3)
        self.optimizer.apply_gradients(zip(clipped, self.trainable_weights, strict=True))
        return self.measured(loss, norm=norm)


class NormStep(TapeStep):
    """Tracks a norm of gradients in a metric."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.norm_metric = keras.metrics.Mean(name="norm")

    def train_step(self, data):
        gradients, y_pred, loss = self.gradients_of(*keras.utils.unpack_x_y_sample_weight(data))
        self.optimizer.apply(gradients, self.trainable_weights)
        self.norm_metric.update_state(tf.linalg.global_norm(gradients))
        return self.measured(loss, largest=ops.max(y_pred))


class SummingStep(TapeStep):
    """Adds gradients up in variables of its own, and applies their mean every second step."""

    def build(self, *args, **options):
        super().build(*args, **options)
        self.sums = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in self.trainable_weights]
        self.done = tf.Variable(0, trainable=False)

    def train_step(self, data):
        gradients, _, loss = self.gradients_of(*keras.utils.unpack_x_y_sample_weight(data))
        self.done.assign_add(1)
        is_due = self.done % 2 == 0
        for total, gradient in zip(self.sums, gradients, strict=True):
            total.assign_add(tf.cast(gradient / 2, total.dtype))
        self.optimizer.apply([total * tf.cast(is_due, total.dtype) for total in self.sums], self.trainable_weights)
        for total in self.sums:
            total.assign(total * tf.cast(~is_due, total.dtype))
        return self.measured(loss)


class SurgeryStep(TapeStep):
    """Takes of the gradient of a second loss what points against that of the first."""

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape(persistent=True) as tape:
            y_pred = self(x, training=True)
            one = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
            other = ops.mean(ops.square(y_pred - 0.3))
        weights = self.trainable_weights
        firsts, seconds = (tape.gradient(loss, weights, unconnected_gradients="zero") for loss in (one, other))
        firsts, seconds = ([tf.convert_to_tensor(gradient) for gradient in each] for each in (firsts, seconds))
        both = sum(ops.sum(first * second) for first, second in zip(firsts, seconds, strict=True))
        square = sum(ops.sum(first * first) for first in firsts)
        against = ops.minimum(both, 0.0) / (square + 1e-6)
        merged = [first + second - against * first for first, second in zip(firsts, seconds, strict=True)]
        self.optimizer.apply(merged, weights)
        return self.measured(one, other=other)


class MixedStep(TapeStep):
    """Mixes samples with others, in an order that is drawn."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.seeds = keras.random.SeedGenerator(13)

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        order = keras.random.shuffle(ops.arange(ops.shape(x)[0]), seed=self.seeds)
        mixed = 0.7 * x + 0.3 * ops.take(x, order, axis=0)
        gradients, _, loss = self.gradients_of(mixed, y, sample_weight)
        self.optimizer.apply(gradients, self.trainable_weights)
        return self.measured(loss)


class FollowingStep(TapeStep):
    """A moving mean of what it predicts, from which it keeps its predictions."""

    def build(self, *args, **options):
        super().build(*args, **options)
        self.center = self.add_weight(shape=(), initializer="zeros", trainable=False, name="center")

    def train_step(self, data):
        gradients, y_pred, loss = self.gradients_of(*keras.utils.unpack_x_y_sample_weight(data))
        self.optimizer.apply(gradients, self.trainable_weights)
        self.center.assign(0.9 * self.center + 0.1 * ops.cast(ops.mean(y_pred), self.center.dtype))
        return self.measured(loss, center=self.center)


class MakingStep(TapeStep):
    """Makes a variable in its first step."""

    seen = None

    def train_step(self, data):
        gradients, y_pred, loss = self.gradients_of(*keras.utils.unpack_x_y_sample_weight(data))
        self.optimizer.apply(gradients, self.trainable_weights)
        if self.seen is None:
            self.seen = tf.Variable(0.0, trainable=False)
        self.seen.assign_add(tf.cast(ops.max(y_pred), "float32"))
        return self.measured(loss, seen=self.seen)


class PairStep(OwnStep):
    """A loss that sums over pairs of samples."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        rows = ops.reshape(y_pred, (ops.shape(y_pred)[0], -1))
        pairs = ops.sum(ops.square(ops.matmul(rows, ops.transpose(rows))))
        loss = super().compute_loss(x, y, y_pred, sample_weight)
        return loss + 0.001 * ops.cast(pairs, loss.dtype)


class Normalizing(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        super().apply([g / (ops.norm(g) + 1e-6) for g in map(ops.convert_to_tensor, grads)], trainable_variables)


class Centralizing(keras.optimizers.Adam):
    def apply_gradients(self, grads_and_vars):
        return super().apply_gradients([(g - ops.mean(g), v) for g, v in grads_and_vars])


class Assigning(keras.optimizers.Optimizer):
    """Assigns the variables itself, and keeps a moving norm of all gradients."""

    def build(self, variables):
        super().build(variables)
        self.norm = self.add_variable(shape=(), name="norm")

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            self.build(trainable_variables)
        grads = [ops.convert_to_tensor(g) for g in grads]
        self.norm.assign(0.5 * self.norm + 0.5 * ops.cast(tf.linalg.global_norm(grads), self.norm.dtype))
        for g, v in zip(grads, trainable_variables, strict=True):
            v.assign(v - 0.05 * g / ops.cast(self.norm + 1e-6, g.dtype))
        self.iterations.assign_add(1)
