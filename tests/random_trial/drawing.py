"""From a seed to a draw."""

from __future__ import annotations

from random import Random

from tests.random_trial.draw import FEEDS, PLAIN_DATASETS, Draw, Head, Part
from tests.random_trial.head_parts import has_classes, head
from tests.random_trial.layer_parts import augmentation, first_of, next_part
from tests.random_trial.optimizer_parts import optimizer
from tests.random_trial.step_parts import OF_NUMBERS, STEPS

_MOST_STEPS = 9
_RATE_CALLBACKS = (
    "keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)",
    'keras.callbacks.ReduceLROnPlateau("loss", factor=0.2, patience=1, min_delta=10.0)',
)
_CALLBACKS = (
    'keras.callbacks.EarlyStopping("loss", patience=1, min_delta=10.0, restore_best_weights=True)',
    "keras.callbacks.TerminateOnNaN()",
    "StopsAt(2)",
    "SeesLogs()",
    "keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)",
    'keras.callbacks.ModelCheckpoint(f"{FOLDER}/weights.weights.h5", "loss", save_best_only=True, '
    "save_weights_only=True)",
    'keras.callbacks.CSVLogger(f"{FOLDER}/log.csv")',
)


def draw_of(seed: int) -> Draw:
    """The draw of a seed: the same in every process."""
    rng = Random(seed)
    precision = rng.choices(("float64", "float32", "mixed_bfloat16"), (7, 2, 1))[0]
    start = rng.choices(("vector", "sequence", "image", "tokens", "sparse", "ragged"), (8, 4, 4, 3, 1, 1))[0]
    feed = rng.choices(FEEDS, (8, 3, 2, 1, 1, 1, 1, 1))[0]
    if start in ("sparse", "ragged"):
        feed = rng.choice(PLAIN_DATASETS)
    batch, samples = _sizes(rng)
    parts, kind = _parts(start, precision, rng)
    is_weighted = rng.random() < 0.35
    heads = _heads(kind, rng, is_weighted=is_weighted, may_jump=precision == "float64")
    callbacks, changes_rate = _callbacks(rng)
    form, step = _form(parts, heads, rng), rng.choice(STEPS)
    if step in OF_NUMBERS and start not in ("vector", "sequence", "image"):
        step = "OwnStep"
    return Draw(
        seed=seed,
        replicas=rng.choices((2, 3, 4), (4, 4, 2))[0],
        is_of_workers=rng.random() < 0.03,
        precision=precision,
        form=form,
        start=start,
        parts=parts,
        heads=heads,
        optimizer=optimizer(rng, has_schedule=not changes_rate),
        compiled=_compiled(rng),
        feed=feed,
        samples=samples,
        batch=batch,
        epochs=rng.choice((1, 2, 2, 3)),
        fitted=_fitted(feed, heads, batch, rng),
        callbacks=callbacks,
        step=step,
    )


def _sizes(rng: Random) -> tuple[int, int]:
    """A batch and samples: a few steps, and a last one that is full, has one sample or anything between."""
    batch = rng.choice((1, 2, 3, 5, 7, 8, 12, 16, 32, 33, 40))
    full = rng.randint(1, max(1, min(_MOST_STEPS, 100 // batch)))
    return batch, batch * full + rng.choice((0, 1 % batch, rng.randrange(batch)))


def _parts(start: str, precision: str, rng: Random) -> tuple[tuple[Part, ...], str]:
    """Layers, and the kind of tensor that they end in."""
    parts = list(first_of(start, rng))
    if start == "image" and precision == "float32" and rng.random() < 0.6:
        parts.append(augmentation(rng))
    kind = parts[-1].gives if parts else start
    for _ in range(rng.choice((1, 2, 3, 3, 4, 5))):
        parts.append(next_part(kind, rng))
        kind = parts[-1].gives
    return tuple(parts), kind


def _heads(kind: str, rng: Random, *, is_weighted: bool, may_jump: bool) -> tuple[Head, ...]:
    names = ("left", "right", "third")[: rng.choices((1, 2, 3), (7, 2, 1))[0]]
    return tuple(head(name, kind, rng, is_weighted=is_weighted, may_jump=may_jump) for name in names)


def _form(parts: tuple[Part, ...], heads: tuple[Head, ...], rng: Random) -> str:
    forms = ["functional", "functional", "subclassed"]
    if len(heads) == 1 and all(part.is_one_layer for part in parts):
        forms += ["sequential", "sequential"]
    if len(heads) == 1 and not (heads[0].metrics or heads[0].weighted_metrics):
        forms += ["own_step"] * 3
    return rng.choice(forms)


def _callbacks(rng: Random) -> tuple[tuple[str, ...], bool]:
    """Callbacks, and whether one changes the learning rate."""
    if rng.random() < 0.5:
        return (), False
    chosen = rng.sample(_CALLBACKS, rng.choice((0, 1, 1, 2)))
    changes_rate = rng.random() < 0.4
    return tuple(chosen + [rng.choice(_RATE_CALLBACKS)] * changes_rate), changes_rate


def _compiled(rng: Random) -> tuple[tuple[str, str], ...]:
    way = rng.choices(("", "run_eagerly", "jit_compile"), (7, 1, 2))[0]
    options = [(way, "True")] if way else []
    if way != "run_eagerly" and rng.random() < 0.15:
        options.append(("steps_per_execution", rng.choice(("2", "3", "5"))))
    return tuple(options)


def _fitted(feed: str, heads: tuple[Head, ...], batch: int, rng: Random) -> tuple[tuple[str, str], ...]:
    options = []
    if feed == "arrays":
        if rng.random() < 0.3:
            options.append(("shuffle", "False"))
        if rng.random() < 0.15:
            options.append(("validation_split", "0.25"))
        if rng.random() < 0.15 and len(heads) == 1 and not heads[0].weight and has_classes(heads[0]):
            options.append(("class_weight", "{0: 1.0, 1: 3.0, 2: 0.5, 3: 0.0}"))
    if feed == "repeated":
        options.append(("steps_per_epoch", rng.choice(("3", "4"))))
    elif feed == "generator":
        options.append(("steps_per_epoch", rng.choice(("3", "5"))))
    elif rng.random() < 0.1:
        options.append(("validation_data", "(x, y)"))
    return tuple(options)
