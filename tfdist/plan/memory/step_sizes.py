"""Sizes of a model, of its optimizer's state, and of one training step on a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Computed = Literal["whole", "gathered", "slices"]
"""How a layer computes with a weight: with all of it on every worker, gathered where it is read, or with slices."""


@dataclass(frozen=True)
class TensorSize:
    """The size of a tensor.

    Attributes:
        shape: Its dimensions.
        itemsize: Bytes of an element.
    """

    shape: tuple[int, ...]
    itemsize: int

    @property
    def bytes(self) -> int:
        """All bytes."""
        return math.prod(self.shape) * self.itemsize

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TensorSize:
        """The size that `asdict` made a value of."""
        return cls(tuple(value["shape"]), value["itemsize"])


@dataclass(frozen=True)
class SentRows:
    """Rows that a layer exchanges in a step which computes with slices of a weight, of the samples of one device.

    Attributes:
        whole: Bytes of what each other worker that shares the weight is sent in full.
        parts: Bytes of what they are sent a part of each.
    """

    whole: int = 0
    parts: int = 0

    def sent_among(self, workers: int) -> int:
        """Bytes that one of so many workers sends."""
        return round(self.whole * (workers - 1) + self.parts * (workers - 1) / workers)


@dataclass(frozen=True)
class WeightSizes:
    """A weight that is trained.

    Attributes:
        path: Its name in the model.
        value: The weight.
        gradient: Bytes of its gradient; of a sparse one those of the rows of a batch.
        slots: What the optimizer keeps for it.
        by_rows: Whether it is a table that workers share by rows in every mode (`--shard-embeddings`).
        recomputed_in: The number of the call that reads it and is computed again; None where there is none.
        slices: Along each of its axes, in how many slices its layout cuts it; empty where there is no layout.
        layout: Why it is cut so.
        computed: How its layer computes with it.
        rows: What its layer exchanges where it computes with slices, as far as that is known.
    """

    path: str
    value: TensorSize
    gradient: int
    slots: tuple[TensorSize, ...]
    by_rows: bool = False
    recomputed_in: int | None = None
    slices: tuple[int, ...] = ()
    layout: str = ""
    computed: Computed = "whole"
    rows: SentRows = SentRows()

    @property
    def is_laid_out(self) -> bool:
        """True if its layout cuts it."""
        return math.prod(self.slices) > 1

    @property
    def slot_bytes(self) -> int:
        """Bytes that the optimizer keeps for it."""
        return sum(slot.bytes for slot in self.slots)


@dataclass(frozen=True)
class StepSizes:
    """The sizes of what a device holds when it trains alone.

    Attributes:
        weights: The weights that are trained.
        frozen: Bytes of other variables: frozen weights, statistics, seeds.
        cut: How the optimizer's state can be cut: between `elements`, or between `variables`; None where it cannot be.
        why_not_cut: Why it cannot.
        optimizer: The name of the optimizer's class.
        activations: Bytes at most of what a step computes besides gradients of weights; None where it cannot be told.
        update: Bytes at most of what an update of all weights computes besides gradients.
        why_no_activations: Why activations cannot be told.
        uncounted: Kinds of TensorFlow's operations that make tensors whose size is not known; they count as nothing.
        made: Whether the weights had to be made to tell.
        process: Bytes of a process that has loaded TensorFlow, Keras and the model's code, and holds nothing yet.
    """

    weights: tuple[WeightSizes, ...]
    frozen: int
    cut: str | None
    why_not_cut: str
    optimizer: str
    activations: int | None
    update: int
    why_no_activations: str
    uncounted: tuple[str, ...]
    process: int
    made: bool = False

    def to_json(self) -> dict[str, Any]:
        """The sizes in JSON's types."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StepSizes:
        """The sizes that `to_json` made a value of."""
        weights = tuple(
            WeightSizes(
                entry["path"],
                TensorSize.from_json(entry["value"]),
                entry["gradient"],
                tuple(TensorSize.from_json(slot) for slot in entry["slots"]),
                entry["by_rows"],
                entry["recomputed_in"],
                tuple(entry["slices"]),
                entry["layout"],
                entry["computed"],
                SentRows(**entry.get("rows", {})),
            )
            for entry in value["weights"]
        )
        return cls(**{**value, "weights": weights, "uncounted": tuple(value["uncounted"])})
