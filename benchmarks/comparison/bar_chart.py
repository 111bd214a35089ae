"""A picture of groups of bars with their ranges, as SVG, in the style of the documentation's pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.comparison.spread import Spread

_COLORS = ("#3949ab", "#ef6c00", "#2e7d32", "#8e24aa", "#00838f", "#6d4c41", "#c2185b", "#546e7a")
_BAR, _GAP, _LEFT, _TOP, _HEIGHT, _PANEL_GAP = 26, 26, 52, 34, 150, 60
_LINES = 4
_LEGEND_STEP = 20


@dataclass(frozen=True)
class Panel:
    """One row of the picture.

    Attributes:
        title: What is above it.
        groups: Name of a group -> name of a bar -> its value and range; a bar without a value is None.
        baseline: A value at which a line is drawn across.
    """

    title: str
    groups: dict[str, dict[str, Spread | None]]
    baseline: float | None = None


def bar_chart(title: str, panels: Sequence[Panel]) -> str:
    """The picture, one panel below the other, with one scale for each.

    Args:
        title: What it shows, with the unit.
        panels: At least one, each with at least one group.
    """
    names = list(dict.fromkeys(name for panel in panels for bars in panel.groups.values() for name in bars))
    colors = {name: _COLORS[number % len(_COLORS)] for number, name in enumerate(names)}
    width = max(460, *(_width(panel) for panel in panels))
    top = _TOP + _LEGEND_STEP * len(names)
    height = top + len(panels) * (_HEIGHT + _PANEL_GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="15" fill="#222">{escape(title)}</text>',
    ]
    for number, name in enumerate(names):
        y = _TOP + _LEGEND_STEP * number
        parts.append(f'<rect x="12" y="{y}" width="12" height="12" fill="{colors[name]}"/>')
        parts.append(f'<text x="30" y="{y + 11}" fill="#222">{escape(name)}</text>')
    for number, panel in enumerate(panels):
        parts += _panel(panel, top + number * (_HEIGHT + _PANEL_GAP), width, colors)
    return "\n".join([*parts, "</svg>", ""])


def _width(panel: Panel) -> int:
    return _LEFT + sum(_BAR * len(bars) + _GAP for bars in panel.groups.values()) + _GAP


def _panel(panel: Panel, top: int, width: int, colors: dict[str, str]) -> list[str]:
    spreads = [spread for bars in panel.groups.values() for spread in bars.values() if spread is not None]
    step = _grid_step(max([spread.high for spread in spreads] + [panel.baseline or 0.0]))
    most = step * _LINES
    floor = top + 24 + _HEIGHT

    def y_of(value: float) -> float:
        return round(floor - value / most * (floor - top - 24), 1)

    parts = [f'<text x="12" y="{top + 14}" fill="#444">{escape(panel.title)}</text>']
    for line in range(_LINES + 1):
        y = y_of(line * step)
        parts.append(f'<path d="M{_LEFT},{y} H{width - 12}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end" fill="#444">{line * step:g}</text>')
    x = _LEFT + _GAP
    for group, bars in panel.groups.items():
        middle = x + _BAR * len(bars) / 2
        parts.append(f'<text x="{middle}" y="{floor + 18}" text-anchor="middle" fill="#222">{escape(group)}</text>')
        for name, spread in bars.items():
            parts += _bar(x, name, spread, floor, y_of, colors[name])
            x += _BAR
        x += _GAP
    if panel.baseline is not None:
        parts.append(f'<path d="M{_LEFT},{y_of(panel.baseline)} H{width - 12}" stroke="#444" stroke-dasharray="4 3"/>')
    return parts


def _bar(
    x: int, name: str, spread: Spread | None, floor: float, y_of: Callable[[float], float], color: str
) -> list[str]:
    middle = x + (_BAR - 4) / 2
    if spread is None:
        return [f'<text x="{middle}" y="{floor - 4}" text-anchor="middle" fill="#b71c1c">–</text>']
    top, low, high = (y_of(value) for value in (spread.median, spread.low, spread.high))
    return [
        f'<rect x="{x}" y="{top}" width="{_BAR - 4}" height="{round(floor - top, 1)}" fill="{color}">'
        f"<title>{escape(name)}: {spread}</title></rect>",
        f'<path d="M{middle},{low} V{high} M{middle - 4},{low} H{middle + 4} M{middle - 4},{high} H{middle + 4}" '
        'stroke="#222" fill="none"/>',
    ]


def _grid_step(most: float) -> float:
    """The distance of the grid's lines, a round number, with the greatest value below the last."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most / _LINES))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor * _LINES >= most)
