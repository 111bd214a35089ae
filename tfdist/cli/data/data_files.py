"""Files that the verbs of `tfdist data` read: options, formats by name, and work on them in processes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.main import INTERRUPTED

SUFFIXES: Mapping[str, str] = MappingProxyType(
    {".npz": "npz", ".csv": "csv", ".txt": "text", ".tsv": "text", ".parquet": "parquet", ".tar": "webdataset"}
)
"""The end of a file's name -> its format."""


class NamesParam(click.ParamType):
    """`a,b,c`."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        names = [name.strip() for name in str(value).split(",")]
        if not all(names):
            self.fail(f"expected names, such as a,b,c. Received: {value!r}", param, ctx)
        return names


processes_option = shared.count("--processes", "Processes at once.", "one a core")


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["tfrecord", "csv", "text", "parquet", "webdataset"]),
    show_default="by their names: .csv, .txt, .tsv, .parquet, .tar; else tfrecord",
    help="Of the files.",
)


def files_of(patterns: Sequence[str], form: str | None) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The files of patterns, paths and folders, and those of the folders that are left out, which stderr names."""
    from tfdist.data.tools.data_folder import files_in, names_of

    other = [suffix for suffix, of_format in SUFFIXES.items() if form not in (None, of_format)]
    found = files_in(patterns, other)
    if found.left_out:
        click.echo(f"left out, by their names no data: {names_of(found.left_out)}", err=True)
    return found.paths, found.left_out


def by_format(paths: Sequence[Path], form: str | None) -> dict[str, list[Path]]:
    """Files by their format (`tfrecord`, `csv` and so on): that which is asked for, else by their names."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        found = form or SUFFIXES.get(path.suffix.lower(), "tfrecord")
        groups.setdefault(found if found in ("csv", "text", "parquet", "webdataset") else "tfrecord", []).append(path)
    return groups


def one_a_core() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(
    ctx: click.Context,
    make_work: Callable[[Any], Any],
    argument: Any,
    paths: Sequence[Path],
    processes: int | None,
    length: int,
    label: str,
) -> list[Any]:
    """Works on each file in several processes; returns the results in the order of the files."""
    from tfdist.data.tools.process_pool import TaskProgress, run_in_processes

    results: dict[Path, Any] = {}
    try:
        with (
            click.progressbar(length=length, label=label, file=sys.stderr) as bar,
            contextlib.closing(run_in_processes(make_work, argument, paths, processes or one_a_core())) as events,
        ):
            for event in events:
                if isinstance(event, TaskProgress):
                    bar.update(event.amount)
                else:
                    results[event.task] = event.result
    except KeyboardInterrupt:
        click.echo(f"stopped: Ctrl-C, SIGINT; {len(results)} of {len(paths)} files were done", err=True)
        ctx.exit(INTERRUPTED)
    return [results[path] for path in paths]
