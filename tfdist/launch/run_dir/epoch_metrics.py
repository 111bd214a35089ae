"""Metrics of a run's epochs, read from the `metrics.jsonl` of its directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdist.bounded_json import parse
from tfdist.rundir.json_record import is_finite
from tfdist.rundir.regular_files import read_tail

MOST_BYTES = 64 << 20
_LAST_BYTES = 1 << 16
"""More than the line of an epoch has."""
_NO_METRICS = ("epoch", "time", "fit")
_VALIDATION = "val_"


@dataclass(frozen=True)
class EpochMetrics:
    """Metrics of one epoch.

    Attributes:
        epoch: The epoch, from 0.
        time: When it ended, in seconds since 1970 (UTC); None if unknown.
        values: Metric -> its value, which may be no finite number; the loss first, those of the validation last.
    """

    epoch: int
    time: float | None
    values: Mapping[str, float]


def read_metrics(file: Path, most_bytes: int = MOST_BYTES) -> tuple[EpochMetrics, ...]:
    """The epochs of a run in the order of the file; none where there is no such file, or it cannot be read.

    Lines that hold something else are left out.

    Args:
        file: The `metrics_file` of its run directory.
        most_bytes: Of a larger file only the end is read.
    """
    return tuple(_parsed(_content(file, most_bytes).splitlines()))


def last_metrics(file: Path) -> EpochMetrics | None:
    """The metrics of the last epoch that ended; None where there are none. Only the end of the file is read."""
    return next(iter(_parsed(reversed(_content(file, _LAST_BYTES).splitlines()))), None)


def metrics_text(metrics: EpochMetrics, most: int) -> str:
    """`loss 0.1392  accuracy 0.9631  val_loss 0.1265`, and how many more there are than `most`."""
    shown = [f"{name} {value:.4g}" for name, value in list(metrics.values.items())[:most]]
    more = len(metrics.values) - len(shown)
    return "  ".join([*shown, *([f"and {more} more"] if more else [])])


def _content(file: Path, most: int) -> bytes:
    """The last bytes of a file."""
    try:
        return read_tail(file, most)[0]
    except OSError:
        return b""


def _parsed(lines: Iterable[bytes]) -> Iterable[EpochMetrics]:
    for line in lines:
        try:
            content = parse(line)
        except ValueError:
            continue
        if isinstance(content, dict) and _is_count(content.get("epoch")):
            numbers = {name: float(value) for name, value in content.items() if _is_number(value)}
            values = {name: value for name, value in numbers.items() if name not in _NO_METRICS}
            time = numbers.get("time")
            at = time if is_finite(time) else None
            yield EpochMetrics(content["epoch"], at, {name: values[name] for name in sorted(values, key=_place)})


def _place(name: str) -> tuple[bool, bool]:
    """Sorts by it: of the training, then of the validation, of each the loss first; the rest as it was logged."""
    return name.startswith(_VALIDATION), name.removeprefix(_VALIDATION) != "loss"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
