"""Tables in Markdown whose columns line up as text, too."""

from __future__ import annotations

from collections.abc import Sequence

from tfdist.text import column_widths


def markdown_table(rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """The lines of a table.

    Args:
        rows: Cells; the first row holds the headings.
        align: A letter for each column: `l` for left, `r` for right.
    """
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, width) for width in column_widths(cells)]
    rule = ["-" * (width - 1) + (":" if side == "r" else "-") for width, side in zip(widths, align, strict=True)]
    padded = [[_pad(cell, width, side) for cell, width, side in zip(row, widths, align, strict=True)] for row in cells]
    return [f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:])]


def _pad(cell: str, width: int, side: str) -> str:
    return cell.rjust(width) if side == "r" else cell.ljust(width)
