"""The options of `tfdist train` that `tfdist launch` takes as well, and how they are written out for a host.

They are the parameters of `train` itself, so there is no second list of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import click
from click.core import ParameterSource

from tfdist.cli.train import train

LAUNCHERS_OWN = frozenset({"workers", "index", "network", "debug_worker"})
"""The options that the launcher decides for every host, and nobody gives; hosts that it starts have no terminal."""
_TARGET = frozenset({"arguments", "module"})


def train_options() -> list[click.Option]:
    """The options of `train` that are passed on to the hosts."""
    return [
        option
        for option in train.params
        if isinstance(option, click.Option) and option.name not in LAUNCHERS_OWN | _TARGET
    ]


def given_options(ctx: click.Context) -> frozenset[str]:
    """The Python names of the options that stand on the command line."""
    return frozenset(name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)


def train_arguments(ctx: click.Context, without: Collection[str] = ()) -> tuple[str, ...]:
    """The options of `train` that were given, as arguments of `tfdist train`, one argument an option: `--grace=5.0`.

    Args:
        ctx: Has the options.
        without: The Python names of those that are left out.
    """
    names = given_options(ctx) - set(without)
    written = [_written(option, ctx.params[option.name]) for option in train_options() if option.name in names]
    return tuple(argument for arguments in written for argument in arguments)


def _written(option: click.Option, value: Any) -> list[str]:
    # The long name, which stands last where there is a short one.
    flag = option.opts[-1]
    if option.is_flag:
        return [flag] if value else []
    # One argument an option: a value may begin with a dash.
    return [f"{flag}={_text(each)}" for each in (value if option.multiple else [value])]


def _text(value: Any) -> str:
    """A value as the command line has it; GPUs come as numbers."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(map(str, value)) if is_list else str(value)
