"""Terminal report of a run's status."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tfdist.reports.status.run_status import RunStatus, WorkerStatus
from tfdist.reports.status.status_summary import COLUMNS, condition_line, log_line, metrics_line, notes, started_text
from tfdist.text import printable, table


def render(status: RunStatus, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        status: The status.
        width: Columns of the terminal; longer lines are cut, but metrics and what is unusual of a worker take as many
            lines as they need. None for no limit.
        height: Lines of the terminal; the fastest workers are left out when they do not fit. None for no limit.
    """
    head = _head(status, width)
    body = _table(status.rows, width) if status.rows else []
    below = [line for note in notes(status) for line in _wrapped(note, width)]
    room = None if height is None else height - len(head) - len(below)
    lines = [*head, *_fitting(body, room), *below]
    return "\n".join(printable(line)[:width].rstrip() for line in lines)


def _head(status: RunStatus, width: int | None) -> list[str]:
    snapshot, begun = status.snapshot, started_text(status)
    lines = [", ".join(filter(None, (f"{snapshot.name or 'run'}: {snapshot.run}", begun))), condition_line(status)]
    lines += [f"  {line}" for line in (log_line(status),) if line]
    lines += [line for text in (metrics_line(status),) if text for line in _wrapped(text, width)]
    return [*lines, ""]


def _table(rows: Sequence[WorkerStatus], width: int | None) -> list[list[str]]:
    """The lines of the heading, then those of each worker: what is unusual has its own where it does not fit."""
    cells = [[name for name, _, _ in COLUMNS], *([show(row) for _, _, show in COLUMNS] for row in rows)]
    align = "".join(align for _, align, _ in COLUMNS)
    lines = table(cells, align)
    if width is None or max(map(len, lines)) <= width:
        return [[line] for line in lines]
    heading, *short = table([row[:-1] for row in cells], align[:-1])
    below = [_wrapped("; ".join(row.remarks), width, indent="  ") for row in rows]
    return [[heading], *([line, *remarks] for line, remarks in zip(short, below, strict=True))]


def _fitting(blocks: Sequence[Sequence[str]], room: int | None) -> list[str]:
    """The lines of a table, without its last workers where there is no room for all: the slowest stays."""
    if room is None or sum(map(len, blocks)) <= room:
        return [line for block in blocks for line in block]
    kept = list(blocks[:2])
    for block in blocks[2:]:
        if sum(map(len, kept)) + len(block) >= room:
            break
        kept.append(block)
    left = len(blocks) - len(kept)
    return [*(line for block in kept for line in block), *([f"and {left} faster workers"] if left else [])]


def _wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    if width is None:
        return [indent + text]
    return textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ")
