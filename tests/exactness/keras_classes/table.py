"""All classes: those with a row, and those without a run, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.exactness.keras_classes import (
    layer_rows,
    loss_rows,
    metric_rows,
    optimizer_rows,
    random_rows,
    recurrent_rows,
)
from tests.exactness.keras_classes.rows import NotRun, Row
from tests.exactness.later_classes import broken, has

_ALL: dict[str, tuple[Row, ...]] = {
    "layers": layer_rows.ROWS,
    "recurrent layers": recurrent_rows.ROWS,
    "layers of noise": random_rows.NOISE,
    "augmentations": random_rows.AUGMENTATIONS,
    "losses": loss_rows.ROWS,
    "metrics": metric_rows.ROWS,
    "optimizers": optimizer_rows.ROWS,
}

GROUPS = {group: tuple(row for row in rows if has(row.name)) for group, rows in _ALL.items()}
"""The rows that one model shows together, but for those that stand apart."""

EAGERLY = {"layers", "recurrent layers", "losses", "optimizers"}
"""Groups whose steps the default tests run without compiling them, which takes most of the time of so small a model."""

ROWS: dict[str, Row] = {row.name: row for rows in GROUPS.values() for row in rows}

_OTHER_DIMENSIONS = re.compile(r"layers\.\w+[13]D(Transpose)?")
_AUGMENTATIONS = ("AutoContrast", "CutMix", "MixUp", "RandomBrightness", "RandomCrop", "RandomErasing", "RandomFlip")


def names_by_default() -> list[str]:
    """The rows that the default tests train: of layers that come in 1, 2 and 3 dimensions those in 2, of augmentations
    some of each kind, of optimizers that stand apart all but one. The slow tests train all.
    """
    few = {row.name for row in GROUPS["augmentations"]} - {f"layers.{name}" for name in _AUGMENTATIONS}
    few.add("optimizers.MultiOptimizer")
    return [name for name in ROWS if name not in few and not _OTHER_DIMENSIONS.fullmatch(name)]


def group_of(row: Row) -> str:
    """The name of its group."""
    return next(group for group, rows in GROUPS.items() if row in rows)


def models_of(names: Iterable[str]) -> list[tuple[Row, ...]]:
    """Rows by their names, those together that one model shows: of one group, or one that stands apart."""
    models: dict[str, list[Row]] = {}
    for row in (ROWS[name] for name in names):
        models.setdefault(row.name if row.is_apart else group_of(row), []).append(row)
    return [tuple(rows) for rows in models.values()]


_BASE = "a base class, which computes nothing"

NOT_RUN: dict[str, NotRun] = {
    one.name: one
    for one in (
        NotRun(
            "layers.AugMix",
            "chooses with Python's `random` while it is traced; apply it in the data",
            is_refused=True,
        ),
        NotRun("layers.FlaxLayer", "needs Flax, and the JAX backend for training"),
        NotRun("layers.InputSpec", "says what a layer accepts; no layer"),
        NotRun("layers.JaxLayer", "needs JAX"),
        NotRun("layers.Layer", _BASE),
        NotRun("layers.MaxNumBoundingBoxes", "pads the boxes of images in a data pipeline; nothing is trained"),
        NotRun("layers.TFSMLayer", "runs a saved model that is not trained; see `tests/devices/test_export.py`"),
        NotRun("layers.TorchModuleWrapper", "needs the PyTorch backend"),
        NotRun("layers.Wrapper", "a base class around a layer"),
        NotRun("losses.Loss", _BASE),
        NotRun("metrics.Metric", _BASE),
        NotRun("optimizers.Optimizer", _BASE),
        *(NotRun(name, "raises in its first step, on one device as on many") for name in broken()),
    )
}
