"""The three ways of `tfdist verify`: on replicas, with workers that are killed, with hosts that are lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from click.core import ParameterSource

from tfdist.errors import UsageError

NOT_WITH_KILL = ("replicas", "tolerance", "also")
NOT_WITH_HOSTS = ("replicas", "nproc", "also")
WITH_HOSTS = ("min_workers", "cut")


def check_mode(ctx: click.Context, options: dict[str, Any]) -> None:
    """Checks that the options belong to the same kind of comparison.

    Args:
        ctx: Knows which were given.
        options: All of them, by name.

    Raises:
        UsageError: They do not.
    """
    if options["hosts"] is not None:
        _refuse(_given(ctx, NOT_WITH_HOSTS), "--hosts N trains on one worker of each host", "--hosts without")
    elif options["kill"]:
        _refuse(_given(ctx, NOT_WITH_KILL), "--kill compares runs of the same workers, to the bit", "--kill without")
    if not options["kill"] and (given := _given(ctx, ("kills", "hosts"))):
        what = "how often --kill kills" if given[0] == "--kills" else "on how many hosts --kill loses some"
        raise UsageError(f"{given[0]} says {what}. Expected --kill, too. Received: {given[0]} alone")
    if options["hosts"] is None and (given := _given(ctx, WITH_HOSTS)):
        raise UsageError(f"{given[0]} is for hosts that are lost. Expected --kill --hosts N, too. Received: {given[0]}")


def _refuse(given: list[str], why: str, expected: str) -> None:
    if given:
        with_what = expected.removesuffix(" without")
        raise UsageError(f"{why}. Expected {expected} {given[0]}. Received: {with_what} {given[0]}")


def _given(ctx: click.Context, names: Iterable[str]) -> list[str]:
    """Those of the options that were given, as the command line has them."""
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
