"""Terminal report of the runs in a folder."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tfdist.reports.status.run_list import RunList
from tfdist.reports.status.status_summary import LIST_COLUMNS, NOTHING, list_row
from tfdist.text import format_count, printable, table

_ALIGN = "".join(align for _, align in LIST_COLUMNS)


def render(found: RunList, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        found: The runs.
        width: Columns of the terminal; where the last column does not fit, it is below each run. None for no limit.
        height: Lines of the terminal; the oldest runs are left out when they do not fit, and longer lines are cut. None
            for no limit.
    """
    head = [f"{found.folder}: {format_count(len(found.runs) + len(found.unreadable), 'run')}", ""]
    notes = [f"{path.name} cannot be read: {why}" for path, why in found.unreadable.items()]
    body = _fitting(_blocks(found, width), None if height is None else height - len(head) - len(notes))
    most = None if height is None else width
    return "\n".join(printable(line)[:most].rstrip() for line in (*head, *body, *notes))


def _blocks(found: RunList, width: int | None) -> list[list[str]]:
    """The lines of the heading, then those of each run."""
    if not found.runs:
        return []
    cells = [tuple(name for name, _ in LIST_COLUMNS), *(list_row(found.now, run) for run in found.runs)]
    lines = table(cells, _ALIGN)
    if width is None or max(map(len, lines)) <= width:
        return [[line] for line in lines]
    heading, *short = table([row[:-1] for row in cells], _ALIGN[:-1])
    return [[heading], *([line, *_below(row[-1], width)] for line, row in zip(short, cells[1:], strict=True))]


def _below(last: str, width: int) -> list[str]:
    """The last column, in lines of its own."""
    if last == NOTHING:
        return []
    return textwrap.wrap(printable(last), width, initial_indent="  ", subsequent_indent="    ")


def _fitting(blocks: Sequence[Sequence[str]], room: int | None) -> list[str]:
    """The lines of the table, without its last runs where there is no room for all; the newest stays."""
    if room is None or sum(map(len, blocks)) <= room:
        return [line for block in blocks for line in block]
    kept = list(blocks[:2])
    for block in blocks[2:]:
        if sum(map(len, kept)) + len(block) >= room:
            break
        kept.append(block)
    return [*(line for block in kept for line in block), f"and {len(blocks) - len(kept)} older"]
