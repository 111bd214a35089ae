"""`--help` and `--help-all` of the verbs with many options: under which headings these stand."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click

HELP_ALL = "tfdist.cli.help_all"
"""Key of a context's `meta`: all options are to be shown."""

FEW = 20
"""A verb with as many options or fewer shows all of them, one below the other."""

OPTIONS = "Options"
"""The heading of what a verb has for itself."""

HELP = "Help"
"""The heading of `--help` and `--help-all`."""

COMMON = frozenset(
    {
        *("-m", "--nproc", "--devices", "--logical-devices", "--workers", "--run-dir", "--resume", "--max-restarts"),
        *("--set", "--fast-dev-run", "--verbose"),
    }
)
"""The options that a short help shows with what they do; of the others it has the names."""

SECTIONS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "What runs, and where": (
            *("-m", "--nproc", "--devices", "--logical-devices", "--share-gpu", "--workers", "--index", "--network"),
        ),
        "Config, and how much of it": ("--set", "--fast-dev-run"),
        "Exactness": ("--check", "--strict", "--batch-norm", "--compression"),
        "Memory": (
            *("--memory-limit", "--shard", "--shard-over", "--shard-embeddings"),
            *("--offload", "--tensor", "--context"),
        ),
        "Speed": ("--communication", "--jit", "--kernels"),
        "Run directory and checkpoints": (
            *("--run-dir", "--overwrite", "--no-save", "--copy-to", "--resume", "--checkpoint-every"),
        ),
        "Waiting, failures and restarts": (
            *("--start-timeout", "--first-step-timeout", "--step-timeout", "--grace", "--max-restarts"),
            *("--max-requeues", "--min-workers", "--rejoin-timeout", "--grow"),
        ),
        "Output": (
            *("--show", "--progress", "--log-format", "--log-prefix", "--debug-worker", "--metrics-port"),
            *("--metrics-address", "--quiet", "--verbose"),
        ),
    }
)
"""Heading -> the options below it, in whichever verb they are. `tfdist train` has no others."""


def section_of(option: click.Parameter) -> str:
    """The heading of an option: `OPTIONS` where `SECTIONS` has none of its names."""
    if "--help" in option.opts or "--help-all" in option.opts:
        return HELP
    return next((heading for heading, names in SECTIONS.items() if not set(names).isdisjoint(option.opts)), OPTIONS)


def sections(
    options: Sequence[click.Option], own: Mapping[str, Sequence[click.Option]] | None = None
) -> dict[str, list[click.Option]]:
    """The options of a verb by their headings: first what it has for itself, last those that ask for help.

    Args:
        own: Heading -> options, where a verb has headings of its own.
    """
    if len(options) <= FEW:
        ordered = sorted(options, key=lambda option: section_of(option) == HELP)
        return {OPTIONS: [option for option in ordered if "--help-all" not in option.opts]}
    found: dict[str, list[click.Option]] = {OPTIONS: []}
    found |= {heading: list(below) for heading, below in (own or {}).items()}
    placed = {option.name for below in found.values() for option in below}
    for heading in (OPTIONS, *SECTIONS, HELP):
        here = [option for option in options if option.name not in placed and section_of(option) == heading]
        found[heading] = found.get(heading, []) + sorted(here, key=_place)
    return {heading: below for heading, below in found.items() if below}


def _place(option: click.Option) -> int:
    names = SECTIONS.get(section_of(option), ())
    return next((place for place, name in enumerate(names) if name in option.opts), 0)


def write_options(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    by_heading: Mapping[str, Sequence[click.Option]],
    records: Mapping[str, tuple[str, str]],
) -> None:
    """Writes the options as a help has them: all, or the common ones and the names of the others.

    Args:
        by_heading: Of `sections`.
        records: Name of an option in Python -> how it is written, and what it does.
    """
    names = {}
    if len(by_heading) > 1 and not ctx.meta.get(HELP_ALL):
        names = _names_alone(by_heading)
        by_heading = _short(by_heading)
    for heading, below in by_heading.items():
        with formatter.section(heading):
            formatter.write_dl([records[str(option.name)] for option in below])
    if names:
        with formatter.section(f"More, which `{ctx.command_path} --help-all` explains"):
            _write_names(formatter, names)


def _short(by_heading: Mapping[str, Sequence[click.Option]]) -> dict[str, Sequence[click.Option]]:
    """Returns what a verb has for itself, with the common options among it."""
    own = {heading: below for heading, below in by_heading.items() if heading not in (*SECTIONS, HELP)}
    common = [option for heading in SECTIONS for option in by_heading.get(heading, ()) if _is_common(option)]
    return {OPTIONS: [], **own} | {OPTIONS: [*own.get(OPTIONS, ()), *common, *by_heading[HELP]]}


def _names_alone(by_heading: Mapping[str, Sequence[click.Option]]) -> dict[str, list[str]]:
    rest = {
        heading: [option.opts[-1] for option in by_heading.get(heading, ()) if not _is_common(option)]
        for heading in SECTIONS
    }
    return {heading: names for heading, names in rest.items() if names}


def _is_common(option: click.Option) -> bool:
    return not COMMON.isdisjoint(option.opts)


def _write_names(formatter: click.HelpFormatter, names: Mapping[str, Sequence[str]]) -> None:
    """Names below one another, as `write_dl` does, which would break them at their hyphens."""
    column = max(map(len, names)) + formatter.current_indent + 2
    for heading, below in names.items():
        lines = textwrap.wrap("  ".join(below), formatter.width - column, break_on_hyphens=False)
        first = f"{'':{formatter.current_indent}}{heading}"
        for place, line in enumerate(lines):
            formatter.write(f"{first if place == 0 else '':{column}}{line}\n")
