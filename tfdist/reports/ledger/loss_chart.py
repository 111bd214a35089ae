"""Drawing of a run's losses over its epochs, as inline SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics

_LOGARITHMIC_FROM = 50.0
"""The ratio of the largest and the smallest loss above which a linear scale hides the small ones."""
_INTERVALS = 5
"""Between marks, at most."""
_GREATEST_POWER = 308
"""Of ten that a float holds."""


@dataclass(frozen=True)
class LossScale:
    """A scale.

    Attributes:
        low: The smallest loss.
        high: The largest loss; equal to `low` where all are.
        is_logarithmic: Whether equal heights are equal ratios.
    """

    low: float
    high: float
    is_logarithmic: bool

    @classmethod
    def of(cls, losses: Sequence[float]) -> LossScale:
        """The scale of one or more losses, which are finite."""
        low, high = min(losses), max(losses)
        return cls(low, high, low > 0 and high / low > _LOGARITHMIC_FROM)

    def height(self, loss: float) -> float:
        """Returns where a loss is between the smallest (0) and the largest (1); the middle where all are equal."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(loss) - low) / (high - low) if high > low else 0.5

    def marks(self) -> list[float]:
        """Round numbers from the smallest to the largest loss, a few; the loss itself where all are equal."""
        if self.high <= self.low:
            return [self.low]
        return self._logarithmic_marks() if self.is_logarithmic else self._linear_marks()

    def _scaled(self, loss: float) -> float:
        # Halved: the difference of two floats may be beyond every float.
        return math.log10(loss) if self.is_logarithmic else loss / 2

    def _linear_marks(self) -> list[float]:
        step = _round_step((self.high / 2 - self.low / 2) / (_INTERVALS / 2))
        if not step:
            return [self.low, self.high]
        first = math.ceil(self.low / step)
        marks = ((first + number) * step for number in range(_INTERVALS + 1))
        return [mark for mark in marks if self.low <= mark <= self.high]

    def _logarithmic_marks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = max(1, math.ceil((last - first) / _INTERVALS))
        powers = range(first, min(last, _GREATEST_POWER) + 1, every)
        return [mark for power in powers if self.low <= (mark := 10.0**power) <= self.high]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... and their tenths that is not smaller."""
    if least < 1e-300:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)


CURVES: Mapping[str, str] = MappingProxyType({"loss": "", "val_loss": "6 4"})
"""Metric -> how its line is dashed, so that colour alone tells nothing apart. The class of a curve is its name."""

_WIDTH, _HEIGHT = 960, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 130, 8, 34
_MOST_POINTS = 500
_MOST_DOTS = 50
_MOST_EPOCH_MARKS = 10
_LABEL_GAP = 15.0


def render(epochs: Sequence[EpochMetrics]) -> str:
    """The drawing; empty where there is no loss.

    Args:
        epochs: The epochs in the order in which they were trained. Several calls of `fit` begin anew, and so does the
            line. A loss that is no finite number leaves a gap.
    """
    shown = _thinned(epochs)
    losses = [loss for name in CURVES for epoch in shown if (loss := _loss(epoch, name)) is not None]
    if not losses:
        return ""
    scale = LossScale.of(losses)
    curves = {name: drawn for name in CURVES if (drawn := _points(shown, name, scale))}
    cells = [*_axes(shown, scale), *(_curve(name, drawn) for name, drawn in curves.items())]
    cells += _labels(shown, {name: drawn[-1][-1] for name, drawn in curves.items()})
    label = html.escape(" ".join(spoken(epochs)))
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(cells)}</svg>'


def caption(epochs: Sequence[EpochMetrics]) -> str:
    """Returns what the drawing shows, in words: the last and the lowest loss, how it is scaled, what has no place in
    it."""
    losses = [loss for name in CURVES for epoch in _thinned(epochs) if (loss := _loss(epoch, name)) is not None]
    scaled = ["The scale is logarithmic."] if losses and LossScale.of(losses).is_logarithmic else []
    return " ".join([*spoken(epochs), *scaled])


def spoken(epochs: Sequence[EpochMetrics]) -> Iterator[str]:
    """The last and the lowest of each loss, a sentence each, and how often it was no finite number."""
    for name in CURVES:
        found = [(loss, epoch.epoch) for epoch in epochs if (loss := _loss(epoch, name)) is not None]
        if found:
            lowest, at = min(found)
            last, after = found[-1]
            least = "its lowest" if at == after else f"at its lowest {lowest:.4g} after epoch {at + 1}"
            yield f"{name} {last:.4g} after epoch {after + 1}, {least}."
        missing = sum(name in epoch.values for epoch in epochs) - len(found)
        if missing:
            yield f"{name} was no finite number after {missing:,} of {len(epochs):,} epochs."


def _loss(epoch: EpochMetrics, name: str) -> float | None:
    loss = epoch.values.get(name)
    return loss if loss is not None and math.isfinite(loss) else None


def _thinned(epochs: Sequence[EpochMetrics]) -> Sequence[EpochMetrics]:
    """As many epochs as can be told apart, evenly spaced, with the last one."""
    every = max(1, math.ceil(len(epochs) / _MOST_POINTS))
    return epochs[(len(epochs) - 1) % every :: every]


def _x(place: int, epochs: Sequence[EpochMetrics]) -> float:
    width = _WIDTH - _LEFT - _RIGHT
    return _LEFT + (width * place / (len(epochs) - 1) if len(epochs) > 1 else width / 2)


def _y(loss: float, scale: LossScale) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - scale.height(loss))


_Point = tuple[float, float, str]
"""Place from the left, place from the top, and what it says."""


def _points(epochs: Sequence[EpochMetrics], name: str, scale: LossScale) -> list[list[_Point]]:
    """The stretches of a curve."""
    stretches: list[list[_Point]] = [[]]
    last = -1
    for place, epoch in enumerate(epochs):
        loss = _loss(epoch, name)
        if (loss is None or epoch.epoch <= last) and stretches[-1]:
            stretches.append([])
        if loss is not None:
            said = f"{name} {loss:.4g} after epoch {epoch.epoch + 1}"
            stretches[-1].append((_x(place, epochs), _y(loss, scale), said))
        last = epoch.epoch
    return [stretch for stretch in stretches if stretch]


def _curve(name: str, stretches: Sequence[Sequence[_Point]]) -> str:
    lines = [" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in stretch) for stretch in stretches if len(stretch) > 1]
    dashes = f' stroke-dasharray="{CURVES[name]}"' if CURVES[name] else ""
    drawn = [f'<polyline points="{line}" fill="none" stroke-width="2"{dashes}/>' for line in lines]
    every = [point for stretch in stretches for point in stretch]
    alone = [stretch[0] for stretch in stretches if len(stretch) == 1]
    for x, y, said in every if len(every) <= _MOST_DOTS else alone:
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{html.escape(said)}</title></circle>')
    return f'<g class="curve {name}">{"".join(drawn)}</g>'


def _labels(epochs: Sequence[EpochMetrics], ends: Mapping[str, _Point]) -> Iterator[str]:
    """The names beside the ends of the curves, one above the other where these are near, and above the epochs."""
    below = math.inf
    for name, (_, y, _) in sorted(ends.items(), key=lambda end: -end[1][1]):
        below = min(y + 4, below - _LABEL_GAP)
        loss = next(loss for epoch in reversed(epochs) if (loss := _loss(epoch, name)) is not None)
        yield f'<text class="{name}" x="{_WIDTH - _RIGHT + 10}" y="{below:.1f}">{name} {loss:.4g}</text>'


def _axes(epochs: Sequence[EpochMetrics], scale: LossScale) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for mark in scale.marks():
        y = _y(mark, scale)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:.6g}</text>'
    yield f'<path class="axis" d="M{_LEFT} {bottom + 4}H{_WIDTH - _RIGHT}"/>'
    every = max(1, math.ceil(len(epochs) / _MOST_EPOCH_MARKS))
    for place in range(0, len(epochs), every):
        x, number = _x(place, epochs), epochs[place].epoch + 1
        yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{number:,}</text>'
    yield f'<text x="{_LEFT - 20}" y="{bottom + 20}" text-anchor="end">epoch</text>'
