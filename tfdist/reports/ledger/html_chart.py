"""HTML report of an account: one static file with its drawings inside, for screens and for paper.

The colours are those of M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any kind of colour
vision tell apart, with greys for what comes before the first step; time that is lost is hatched as well.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.ledger import loss_chart
from tfdist.reports.ledger.account import (
    LABELS,
    PARTS,
    Account,
    Recovery,
    endings,
    headlines,
    percent,
    recoveries,
    steps_of,
)
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.text import format_clock, format_time, format_zone, printable

MAX_COLUMNS = 160
Column = Mapping[TimeKind, float]
COLOURS: Mapping[TimeKind, str] = MappingProxyType(
    {
        TimeKind.STEP: "#009e73",
        TimeKind.INPUT: "#f0e442",
        TimeKind.EVALUATION: "#56b4e9",
        TimeKind.CHECKPOINT: "#0072b2",
        TimeKind.CALLBACK: "#cc79a7",
        TimeKind.COMPILE: "#e69f00",
        TimeKind.RESTORE: "#767676",
        TimeKind.START_UP: "#bbbbbb",
        TimeKind.FORMING: "#9a9a9a",
        TimeKind.BUILDING: "#dddddd",
        TimeKind.RESTART: "#d55e00",
        TimeKind.REPLAY: "var(--replay)",
        TimeKind.OTHER: "var(--paper)",
    }
)
"""The fill of each kind of time, as a style may have it; most are the same on light and dark."""
HATCHED = (TimeKind.RESTART, TimeKind.REPLAY)
_INK_ON: Mapping[TimeKind, str] = MappingProxyType(
    {
        TimeKind.CHECKPOINT: "#fff",
        TimeKind.STEP: "#fff",
        TimeKind.RESTORE: "#fff",
        TimeKind.OTHER: "var(--ink)",
    }
)
_LIGHT = """color-scheme: light; --ink: #111; --paper: #fff; --muted: #555; --line: #999; --grid: #e2e2e2;
       --replay: #444; --loss: #0072b2; --val-loss: #b34700;"""
_DARK = """color-scheme: dark; --ink: #e6e6e6; --paper: #16181c; --muted: #a3a8b0; --line: #6b7078; --grid: #31353c;
       --replay: #777; --loss: #56b4e9; --val-loss: #e69f00;"""
STYLE = f"""
:root {{ {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
body {{ font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 980px;
       margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.3em; margin-bottom: 0; }} h2 {{ font-size: 1.05em; margin: 2em 0 .5em; }}
.path {{ color: var(--muted); font-size: .85em; overflow-wrap: anywhere; }}
.goodput {{ font-size: 2.6em; font-weight: 600; margin: .4em 0 0; }}
.goodput small {{ font-size: .4em; font-weight: 400; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
td, th {{ padding: .2em 1em .2em 0; text-align: right; font-weight: 400; vertical-align: top; white-space: nowrap; }}
th {{ color: var(--muted); border-bottom: 1px solid var(--line); }}
td.text, th.text {{ text-align: left; }} td.wide {{ white-space: normal; }}
tr.sum td {{ border-top: 1px solid var(--line); font-weight: 600; }}
svg {{ display: block; width: 100%; height: auto; }} svg text {{ font: 12px system-ui, sans-serif; fill: var(--ink); }}
svg.key {{ display: inline-block; width: 26px; height: 14px; vertical-align: -2px; }}
.axis {{ stroke: var(--ink); }} .edge {{ stroke: var(--ink); stroke-width: 1; }} .grid {{ stroke: var(--grid); }}
.hatch {{ stroke: var(--paper); stroke-width: 3; }}
svg text.loss {{ fill: var(--loss); }} svg text.val_loss {{ fill: var(--val-loss); }}
.curve.loss {{ stroke: var(--loss); }} .curve.loss circle {{ fill: var(--loss); }}
.curve.val_loss {{ stroke: var(--val-loss); }} .curve.val_loss circle {{ fill: var(--val-loss); }}
@media print {{ body {{ margin: 0; max-width: none; }}
       * {{ -webkit-print-color-adjust: exact; print-color-adjust: exact; }} }}
"""
_WIDTH = 960
_BAR_HEIGHT = 44
_CHART_HEIGHT = 180
_NAMES: Mapping[TimeKind, str] = MappingProxyType(
    {
        TimeKind.STEP: "steps",
        TimeKind.INPUT: "data",
        TimeKind.EVALUATION: "evaluation",
        TimeKind.CHECKPOINT: "saves",
        TimeKind.CALLBACK: "between epochs",
        TimeKind.COMPILE: "compiling",
        TimeKind.RESTORE: "restoring",
        TimeKind.START_UP: "start-up",
        TimeKind.FORMING: "forming",
        TimeKind.BUILDING: "data, model",
        TimeKind.RESTART: "restarts",
        TimeKind.REPLAY: "done again",
        TimeKind.OTHER: "other",
    }
)
"""In few letters, for the inside of the bar."""
_LETTER = 8.0
"""The width of a letter, with room to spare."""


def columns(account: Account, most: int = MAX_COLUMNS) -> list[Column]:
    """Seconds of each kind of time in each column; they add up to the run's.

    A span that lies in several columns gives each its part, as if its kinds were spread evenly.

    Args:
        account: The account; time between jobs is not in the chart.
    """
    if not account.wall:
        return []
    width = account.wall / most
    cut: list[dict[TimeKind, float]] = [{} for _ in range(most)]
    done = 0.0
    for span in (span for attempt in account.attempts for span in attempt.spans):
        length = span.at - span.since
        for place in _places(done, length, width, most):
            inside = min(done + length, (place + 1) * width) - max(done, place * width)
            for kind, seconds in span.seconds.items():
                cut[place][kind] = cut[place].get(kind, 0.0) + seconds * max(0.0, inside) / length
        done += length
    return [*cut]


def _places(begun: float, length: float, width: float, most: int) -> range:
    """The columns that a span lies in."""
    if length <= 0:
        return range(0)
    return range(min(most - 1, int(begun / width)), min(most - 1, int((begun + length) / width)) + 1)


def ink_on(kind: TimeKind) -> str:
    """The colour of letters on the colour of a kind of time."""
    return _INK_ON.get(kind, "#111")


def render(name: str, run_dir: str, account: Account, epochs: Sequence[EpochMetrics] = ()) -> str:
    """A whole HTML document, which needs no other file, no script and no network.

    Args:
        account: Where its time went.
        epochs: The metrics of its epochs, of which the losses are drawn.
    """
    first, *others = headlines(account)
    first = first.partition(": ")[2]
    parts = [
        f"<h1>{_text(name)}: where the time went</h1>",
        f'<div class="path">{_text(run_dir)}<br>times of day: {_text(format_zone(account.attempts[0].since))}</div>',
        f'<div class="goodput">{percent(account.goodput, 1)} <small>goodput</small></div>',
        f"<p>{'<br>'.join(_text(line[:1].upper() + line[1:] + '.') for line in (first, *others))}</p>",
        _bar(account),
        _kinds(account),
        "<h2>Over the course of the run: each column is a slice of the wall time</h2>",
        _chart(account),
    ]
    if losses := loss_chart.render(epochs):
        parts += ["<h2>Loss after each epoch</h2>", losses, f"<p>{_text(loss_chart.caption(epochs))}</p>"]
    if len(account.attempts) > 1:
        parts += ["<h2>Attempts</h2>", _attempts(account)]
    recovered = recoveries(account.attempts)
    if recovered:
        title = "Restarts: seconds from the notice of a failure to the first step after it"
        parts += [f"<h2>{title}</h2>", _recoveries(recovered)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(name)}: goodput {percent(account.goodput, 1)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _bar(account: Account) -> str:
    """The wall time as one bar, its largest parts labelled."""
    cells, left = [], 0.0
    for kind, label in LABELS.items():
        share = max(0.0, account.seconds[kind]) / account.wall if account.wall else 0.0
        width = share * _WIDTH
        if width:
            cells.append(_box(left, 0, width, _BAR_HEIGHT, kind, f"{label}: {percent(share, 1)}"))
        if width > _LETTER * len(_NAMES[kind]) and kind not in HATCHED:
            middle = f'x="{left + width / 2:.1f}" y="{_BAR_HEIGHT / 2 + 5:.0f}" text-anchor="middle"'
            cells.append(f'<text {middle} style="fill:{ink_on(kind)}">{_NAMES[kind]}</text>')
        left += width
    return _svg(_BAR_HEIGHT + 2, cells, f"Shares of the wall time: {_spoken(account)}")


def _chart(account: Account) -> str:
    """The wall time in columns of one width, each with its shares; replayed steps where they were done."""
    cut = columns(account)
    width = _WIDTH / max(1, len(cut))
    cells = [cell for place, column in enumerate(cut) for cell in _stack(column, place * width, width)]
    cells += _marks(account)
    label = "Shares of the wall time over the course of the run; the table below has the attempts"
    return _svg(_CHART_HEIGHT + 40, cells, label)


def _stack(column: Column, left: float, width: float) -> list[str]:
    cells, top = [], float(_CHART_HEIGHT)
    whole = sum(column.values())
    for kind, label in LABELS.items():
        height = _CHART_HEIGHT * max(0.0, column.get(kind, 0.0)) / whole if whole else 0.0
        if height:
            top -= height
            cells.append(_box(left, top, width, height, kind, f"{label}: {percent(column[kind], whole)}", border=False))
    return cells


def _marks(account: Account) -> list[str]:
    """The axis of the wall time, with a line where an attempt begins."""
    cells, done = [], 0.0
    last = -100.0
    for attempt in account.attempts:
        x = _WIDTH * done / account.wall if account.wall else 0.0
        if done:
            cells.append(f'<path d="M{x:.1f} 0V{_CHART_HEIGHT + 6}" class="axis" stroke-dasharray="4 3"/>')
        # Every restart has its line; labels only where there is room.
        if x - last > 80 and x < _WIDTH - 150:
            cells.append(f'<text x="{x + 2:.1f}" y="{_CHART_HEIGHT + 18}">attempt {attempt.number}</text>')
            last = x
        done += attempt.at - attempt.since
    cells.append(f'<path d="M0 {_CHART_HEIGHT}H{_WIDTH}" class="axis"/>')
    end = f'<text x="{_WIDTH}" y="{_CHART_HEIGHT + 34}" text-anchor="end">{format_clock(account.wall)} wall time</text>'
    return [*cells, f'<text x="0" y="{_CHART_HEIGHT + 34}">{_text(format_time(account.attempts[0].since))}</text>', end]


def _box(
    left: float, top: float, width: float, height: float, kind: TimeKind, title: str, *, border: bool = True
) -> str:
    fill = f"url(#{kind.value})" if kind in HATCHED else COLOURS[kind]
    # Crisp edges leave no gap between two columns.
    edge = ' class="edge"' if border else ' shape-rendering="crispEdges"'
    return (
        f'<rect x="{left:.2f}" y="{top + 1:.2f}" width="{width:.2f}" height="{height:.2f}" style="fill:{fill}"{edge}>'
        f"<title>{_text(title)}</title></rect>"
    )


def _svg(height: float, cells: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="-1 0 {_WIDTH + 2} {height:.0f}" role="img" aria-label="{_text(label)}">{_patterns()}'
        f"{''.join(cells)}</svg>"
    )


def _patterns() -> str:
    """Hatching for lost time."""
    made = (
        f'<pattern id="{kind.value}" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="8" height="8" style="fill:{COLOURS[kind]}"/><path d="M0 0V8" class="hatch"/>'
        "</pattern>"
        for kind in HATCHED
    )
    return f"<defs>{''.join(made)}</defs>"


def _kinds(account: Account) -> str:
    rows = [
        f'<tr><td class="text">{_key(kind)} {_text(label)}</td><td>{format_clock(account.seconds[kind])}</td>'
        f"<td>{percent(account.seconds[kind], account.wall)}</td></tr>"
        for kind, label in LABELS.items()
    ]
    return (
        '<table style="margin-top:1em"><tr><th class="text"></th><th>time</th><th>share</th></tr>'
        + "".join(rows)
        + f'<tr class="sum"><td class="text">wall time</td><td>{format_clock(account.wall)}</td><td></td></tr></table>'
    )


def _key(kind: TimeKind) -> str:
    return f'<svg class="key" viewBox="0 0 26 14" aria-hidden="true">{_patterns()}{_box(1, 0, 24, 12, kind, "")}</svg>'


def _attempts(account: Account) -> str:
    rows = [
        f"<tr><td>{attempt.number}</td><td>{_text(format_time(attempt.since))}</td>"
        f"<td>{format_clock(attempt.at - attempt.since)}</td>"
        f"<td>{percent(attempt.seconds.get(TimeKind.STEP, 0.0), attempt.at - attempt.since)}</td>"
        f'<td>{_text(steps_of(attempt))}</td><td class="text wide">{_text(ended)}</td></tr>'
        for attempt, ended in zip(account.attempts, endings(account), strict=True)
    ]
    return (
        "<table><tr><th>attempt</th><th>started</th><th>wall time</th><th>goodput</th><th>steps</th>"
        '<th class="text">how it ended</th></tr>' + "".join(rows) + "</table>"
    )


def _recoveries(recovered: Sequence[Recovery]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("attempt", "all", *PARTS, "steps again"))
    rows = [
        f"<tr><td>{recovery.attempt}</td><td>{recovery.whole:.1f}</td>"
        + "".join(f"<td>{recovery.seconds[part]:.1f}</td>" for part in PARTS)
        + f"<td>{recovery.again:,}</td></tr>"
        for recovery in recovered
    ]
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _spoken(account: Account) -> str:
    """The shares in words, for those who cannot see the picture."""
    return ", ".join(f"{label} {percent(account.seconds[kind], account.wall)}" for kind, label in LABELS.items())


def _text(text: str) -> str:
    # Control characters and bytes that are no UTF-8 must not be in a document.
    return html.escape(printable(text))
