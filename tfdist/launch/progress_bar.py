"""The bar that shows the progress of a run on a terminal: one line where it fits, else two. Drawn by rich.

An epoch of unknown size has no bar, and shows the rest.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tfdist.launch import progress_fields as fields
from tfdist.launch.run_progress import RunProgress

LEAST_BAR, MOST_BAR = 10, 40
"""Columns of the bar."""

_GAP = 2


@dataclass(frozen=True)
class Screen:
    """The screen that a bar is drawn on.

    Attributes:
        columns: Its width.
        encoding: That of its text: without Unicode a bar is drawn in ASCII.
        colors: "auto" for those that the environment says it has; None for none.
    """

    columns: int
    encoding: str = "utf-8"
    colors: Literal["auto"] | None = "auto"


def draw(progress: RunProgress, screen: Screen) -> list[bytes]:
    """The lines of the bar, without newlines, each narrower than the screen, on which a full line would wrap."""
    width = max(20, screen.columns - 1)
    head, tail, more = _head(progress), _tail(progress), _more(progress)
    in_one = [*tail, *more]
    if _width([*head, *in_one]) + LEAST_BAR + _GAP <= width:
        return _render(screen, width, [_line(progress, head, in_one, width)])
    while tail and _width([*head, *tail]) + LEAST_BAR + _GAP > width:
        tail.pop()
    lines: list[Table | Text] = [_line(progress, head, tail, width)]
    if more:
        lines.append(Text("  " + (" " * _GAP).join(part.plain for part in more), overflow="ellipsis", no_wrap=True))
    return _render(screen, width, lines)


def _head(progress: RunProgress) -> list[Text]:
    return [Text(fields.epoch(progress), "bold"), Text(fields.steps(progress), "cyan")]


def _tail(progress: RunProgress) -> list[Text]:
    """Returns what stands behind the bar, the most important first."""
    return _texts([fields.left(progress), fields.doing(progress) or fields.rate(progress)])


def _more(progress: RunProgress) -> list[Text]:
    return _texts([*fields.metrics(progress), fields.waiting(progress), fields.memory(progress)])


def _texts(parts: Sequence[str]) -> list[Text]:
    return [Text(part) for part in parts if part]


def _width(parts: Sequence[Text]) -> int:
    return sum(part.cell_len for part in parts) + _GAP * len(parts)


def _line(progress: RunProgress, head: Sequence[Text], tail: Sequence[Text], width: int) -> Table:
    cells: list[Text | ProgressBar] = [*head, *tail]
    if progress.steps is not None:
        bar_width = min(MOST_BAR, max(LEAST_BAR, width - _width([*head, *tail])))
        cells.insert(len(head), ProgressBar(float(max(1, progress.steps)), progress.step, width=bar_width))
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in cells:
        grid.add_column(no_wrap=True)
    grid.add_row(*cells)
    return grid


def _render(screen: Screen, width: int, lines: Sequence[Table | Text]) -> list[bytes]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=screen.encoding, errors="replace")
    console = Console(
        file=out,
        width=width,
        force_terminal=screen.colors is not None,
        color_system=screen.colors,
        legacy_windows=False,
        highlight=False,
        markup=False,
    )
    for line in lines:
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    out.flush()
    written = out.buffer.getvalue()
    return [line.rstrip() for line in written.splitlines()]
