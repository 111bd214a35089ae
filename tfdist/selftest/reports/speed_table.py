"""Times of a step in each layout, and how they scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.text import format_duration, table

_HEADINGS = ("model", "on", "global batch", "time a step", "samples/s", "scaling")


@dataclass(frozen=True)
class StepTime:
    """Time of a step of one model in one layout.

    Attributes:
        model: Its name.
        layout: The layout's label.
        replicas: Replicas of the layout.
        seconds: Of a step.
        batch: Samples of a step, over all replicas.
        scaling: Samples a second over those of one device times the replicas; None where one device has no time.
    """

    model: str
    layout: str
    replicas: int
    seconds: float
    batch: int
    scaling: float | None = None

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.batch / self.seconds

    def to_json(self) -> dict[str, Any]:
        """In JSON's types."""
        return {**asdict(self), "samples_per_second": self.rate}


def step_times(found: Sequence[tuple[str, int, Mapping[str, Any]]]) -> tuple[StepTime, ...]:
    """The times of all layouts.

    Args:
        found: Label, replicas and what the row has found, of each layout; that of one device first, where there is one.
    """
    alone = {model: time["batch"] / time["seconds"] for _, replicas, times in found if replicas == 1
             for model, time in times.items()}  # fmt: skip
    return tuple(
        StepTime(model, label, replicas, time["seconds"], time["batch"], _scaling(time, alone.get(model), replicas))
        for label, replicas, times in found
        for model, time in times.items()
    )


def _scaling(time: Mapping[str, Any], alone: float | None, replicas: int) -> float | None:
    return None if alone is None else time["batch"] / time["seconds"] / (replicas * alone)


def speed_rows(times: Sequence[StepTime]) -> list[tuple[str, ...]]:
    """The cells of the table, headings first, a model after the other."""
    ordered = sorted(times, key=lambda time: time.model)
    return [_HEADINGS, *(_cells(time) for time in ordered)]


def speed_lines(times: Sequence[StepTime]) -> Iterator[str]:
    """The table for terminals."""
    yield from table(speed_rows(times), "llrrrr", indent="  ")


def _cells(time: StepTime) -> tuple[str, ...]:
    scaling = "-" if time.scaling is None else f"{100 * time.scaling:.0f} %"
    return (
        time.model,
        time.layout,
        f"{time.batch:,}",
        format_duration(time.seconds),
        f"{time.rate:,.0f}",
        scaling,
    )
