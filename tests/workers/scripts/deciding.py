"""Callbacks that decide, restore and write, and metrics and predictions of all: says what came of each.

The workers disagree on purpose wherever a callback can. What is asked for is what the chief alone would have done.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdist

EPOCHS, BATCH, SAMPLES = 4, 4, 10
STEPS = -(-SAMPLES // BATCH)
INDEX = tfdist.worker_index()
FOLDER = Path(sys.argv[1])
os.chdir(FOLDER)

x = np.random.default_rng(1).normal(size=(SAMPLES, 3)).astype("float32")
y = (x @ [[1.0], [2.0], [-1.0]]).astype("float32")
Callback = keras.callbacks.Callback
said: dict[str, object] = {}


def build(**compiled: object) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    model.compile(**{"optimizer": keras.optimizers.Adam(0.05), "loss": "mse"} | compiled)
    model.optimizer.build(model.trainable_variables)
    return model


used = build()
at_first = [(variable, variable.numpy()) for variable in (*used.variables, *used.optimizer.variables)]


def as_built() -> keras.Model:
    """One model for all, as it was built: a new one would be traced anew."""
    for variable, value in at_first:
        variable.assign(value)
    used._initial_epoch = None  # what an earlier BackupAndRestore left
    return used


def outcome(model: keras.Model, history: keras.callbacks.History | None = None) -> dict[str, object]:
    return {
        "iterations": int(model.optimizer.iterations.numpy()),
        "rate": float(model.optimizer.learning_rate.numpy()),
        "weights": [weight.tolist() for weight in model.get_weights()],
        "history": None if history is None else history.history,
    }


def fit(*callbacks: Callback, model: keras.Model | None = None, **options: object) -> dict[str, object]:
    model = model or as_built()
    settings = {"x": x, "y": y, "batch_size": BATCH, "epochs": EPOCHS, "verbose": 0, "shuffle": False}
    return outcome(model, model.fit(**settings | options, callbacks=list(callbacks)))


class At(Callback):
    """Calls `act(model)` where `method` is called for the `count`-th time, on worker `worker` alone."""

    def __init__(self, method: str, count: int, act: Callable[[keras.Model], None], worker: int = 0) -> None:
        super().__init__()
        self.left, self.act, self.worker = count, act, worker
        setattr(self, method, self.called)

    def called(self, *arguments: object, **options: object) -> None:
        self.left -= 1
        if self.left == 0 and self.worker == INDEX:
            self.act(self.model)


def setting(name: str) -> Callable[[keras.Model], None]:
    return lambda model: setattr(model, name, True)


def to_rate(rate: float) -> Callable[[keras.Model], None]:
    return lambda model: setattr(model.optimizer, "learning_rate", rate)


stop = setting("stop_training")

# When to stop.
said["stop at a batch"] = fit(At("on_train_batch_end", 7, stop))
said["stop at a batch, of a function"] = fit(
    keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batch == 2 and INDEX == 0 and stop(model)),
    model=(model := as_built()),
)
said["stop before the first batch"] = fit(At("on_train_begin", 1, stop))
said["stop at the begin of an epoch"] = fit(At("on_epoch_begin", 2, stop))
said["stop at the end of an epoch"] = fit(At("on_epoch_end", 2, stop))
said["stop in the validation"] = fit(At("on_test_batch_end", 4, stop), validation_data=(x, y), validation_batch_size=8)
said["stop on worker 1 alone"] = fit(At("on_train_batch_end", 7, stop, 1), At("on_epoch_end", 2, stop, 1))
only_here = [At("on_train_batch_end", 7, stop, INDEX)] if INDEX == 0 else []
said["stop by a callback that one worker has"] = fit(*only_here)
said["stop by a callback on the chief"] = fit(tfdist.on_chief(At("on_epoch_end", 2, stop, INDEX)))
signal = At("on_train_batch_end", 7, stop, INDEX)
signal.async_safe = True
said["stop from outside"] = fit(*([signal] if INDEX == 0 else []))["iterations"]
other = At("on_train_batch_end", 7, stop, 1)
other.async_safe = True
said["stop from outside on worker 1"] = fit(other)
model = build()
stopping = [At("on_test_batch_end", 2, setting("stop_evaluating"))]
said["stop evaluating"] = model.evaluate(x, y, batch_size=BATCH, callbacks=stopping, verbose=0)
stopping = [At("on_predict_batch_end", 2, setting("stop_predicting"))]
said["stop predicting"] = model.predict(x, batch_size=BATCH, callbacks=stopping, verbose=0).tolist()
stopping = [At("on_predict_batch_end", 2, setting("stop_predicting"), 1)]
said["predict on"] = model.predict(x, batch_size=BATCH, callbacks=stopping, verbose=0).tolist()

# A loss that is not finite, of samples of the last replica.
bad = x.copy()
bad[2 * BATCH - 1] = np.nan
nan = fit(keras.callbacks.TerminateOnNaN(), x=bad)
said["stop at NaN"] = nan["iterations"]

# Logs of batches, of which each worker has its own until it is given those of all.
logged: list[dict[str, float]] = []
keep = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: logged.append(dict(logs)))
fit(keep)
checkpoint = {"monitor": "loss", "save_best_only": True, "save_weights_only": True, "save_freq": 2}
best = keras.callbacks.ModelCheckpoint("best.weights.h5", **checkpoint)
fit(best)
said["logs of batches"] = {"logs": logged, "best": float(best.best)}

# Learning rates.
said["rates of a schedule"] = fit(keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / (2.0 + INDEX)))
said["rates at the end of epochs"] = fit(At("on_epoch_end", 1, to_rate(0.01 + INDEX), INDEX))
said["rates of a plateau"] = fit(
    keras.callbacks.ReduceLROnPlateau("loss", factor=0.5 if INDEX == 0 else 0.1, patience=1, min_delta=10.0)
)

# The best epoch.


class Score(Callback):
    """Gives every worker its own idea of the best epoch."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        logs["score"] = float(-abs(epoch - 1) if INDEX == 0 else epoch)


best = keras.callbacks.EarlyStopping("score", mode="max", patience=2, restore_best_weights=True)
said["best weights"] = fit(Score(), best)
best = keras.callbacks.EarlyStopping("score", mode="max", patience=2, restore_best_weights=True)
said["best weights of the chief"] = fit(Score(), tfdist.on_chief(best))

# Files.
checkpoint = keras.callbacks.ModelCheckpoint(f"best-{INDEX}/{{epoch:02d}}.keras", "loss", save_best_only=True)
often = keras.callbacks.ModelCheckpoint("often/{epoch}.weights.h5", save_weights_only=True, save_freq=4)
said["checkpoints"] = fit(checkpoint, often)
said["best of the checkpoints"] = float(checkpoint.best)
for _ in range(2):
    fit(keras.callbacks.CSVLogger("appended.csv", append=True), epochs=2)
fit(tfdist.on_every_worker(keras.callbacks.CSVLogger(f"log-{INDEX}.csv")), epochs=2)
fit(tfdist.on_chief(At("on_train_end", 1, lambda model: Path(f"chief-{INDEX}").touch(), INDEX)), epochs=1)
averaged = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
averaging = {"model": build(optimizer=averaged), "validation_data": (x, y), "epochs": 2}
said["averages"] = fit(keras.callbacks.SwapEMAWeights(), **averaging)
try:
    fit(keras.callbacks.TensorBoard("board"), epochs=1)
except Exception as error:
    said["no TensorBoard"] = str(error)
try:
    fit(*([keras.callbacks.BackupAndRestore("none")] if INDEX == 0 else []), epochs=1)
except tfdist.UsageError as error:
    said["backup on one worker"] = str(error)

# Backups, in a directory that no two workers share.


class Interrupted(Exception):
    pass


def interrupt(model: keras.Model) -> None:
    raise Interrupted


def fit_until(count: int, **options: object) -> None:
    """Trains until the `count`-th epoch begins, and is interrupted."""
    backup = keras.callbacks.BackupAndRestore(FOLDER / f"backup-{INDEX}", **options)
    try:
        fit(backup, At("on_epoch_begin", count, interrupt, INDEX))
    except Interrupted:
        return
    raise AssertionError("it was not interrupted")


def resumed(**options: object) -> dict[str, object]:
    backup = keras.callbacks.BackupAndRestore(FOLDER / f"backup-{INDEX}", **options)
    result = fit(backup)
    return {**result, "epochs": len(result["history"].get("loss", ()))}


fit_until(3)
said["files of the backup"] = sorted(path.name for path in Path("backup-0").iterdir()) if INDEX == 0 else None
tfdist.barrier()
said["resumed"] = resumed(delete_checkpoint=False)
said["resumed at the end"] = resumed()
said["resumed from nothing"] = resumed()
fit_until(4, save_freq=2)
said["resumed from a batch"] = resumed()
fit_until(4, double_checkpoint=True)
if INDEX == 0:
    Path("backup-0/latest.weights.h5").write_bytes(b"damaged")
tfdist.barrier()
said["resumed from the previous one"] = resumed(double_checkpoint=True)
fit_until(2)
if INDEX == 0:
    Path("backup-0/latest.weights.h5").write_bytes(b"damaged")
tfdist.barrier()
try:
    resumed()
except OSError:
    said["damaged"] = True

# Metrics and predictions of all.


def largest_error(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.abs(y_true - y_pred))


model = build(metrics=[tfdist.gathered(largest_error)])
said["gathered"] = fit(model=model, validation_data=(x[:9], y[:9]))
said["gathered, evaluated"] = model.evaluate(x, y, batch_size=BATCH, verbose=0)


def predicted(model: keras.Model, x: np.ndarray = x) -> dict[str, object]:
    with tfdist.predictions_on_chief():
        here = model.predict(x, batch_size=BATCH, verbose=0)
    everywhere = model.predict(x, batch_size=BATCH, verbose=0)
    for part in (here, everywhere):
        for array in keras.tree.flatten(part):
            assert array.dtype == keras.tree.flatten(everywhere)[0].dtype
    lists = [part.to_list() if isinstance(part, tf.RaggedTensor) else part.tolist() for part in (here, everywhere)]
    return {"everywhere": lists[1], "here": lists[0] if INDEX == 0 else [], "shape": list(here.shape)[1:]} | (
        {} if INDEX == 0 else {"rows": len(lists[0])}
    )


said["predictions"] = predicted(model)
half = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="mixed_bfloat16")])
half.set_weights([np.arange(6).reshape(3, 2), np.ones(2)])
said["predictions in bfloat16"] = predicted(half)


class Growing(keras.Model):
    """As many numbers a row as the first of the batch says."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.zeros([tf.shape(inputs)[0], tf.cast(tf.reduce_max(inputs), tf.int32), 2])


said["predictions of many lengths"] = predicted(Growing(), np.array([[1.0]] * BATCH + [[2.0]] * BATCH))


class Lengths(keras.layers.Layer):
    """A ragged row of as many numbers as the input says."""

    def call(self, inputs: tf.Tensor) -> tf.RaggedTensor:
        return tf.ragged.range(tf.cast(inputs[:, 0], tf.int32))


class Ragged(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.lengths = Lengths()

    def call(self, inputs: tf.Tensor) -> tf.RaggedTensor:
        return self.lengths(inputs)


lengths = np.random.default_rng(2).integers(0, 4, (9, 1)).astype("float32")
said["predictions, ragged"] = predicted(Ragged(), lengths)
print(json.dumps(said, default=lambda value: np.asarray(value).tolist()))
