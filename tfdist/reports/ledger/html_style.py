"""Style of the ledger's page: light and dark, on a screen as its user prefers, and light on paper.

The colours are those of M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any kind of colour
vision tell apart, with greys for what comes before the first step; time that is lost is hatched as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tfdist.rundir.ledger_lines import TimeKind

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


def ink_on(kind: TimeKind) -> str:
    """The colour of letters on the colour of a kind of time."""
    return _INK_ON.get(kind, "#111")
