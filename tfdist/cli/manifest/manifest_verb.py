"""A command of `tfdist manifest`: it has options of its own and those of `train` that are the same in every pod."""

from __future__ import annotations

from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.launch.train_arguments import train_options

OWN = frozenset({"run_dir", "grace", "max_restarts", "resume"})
"""Options of `train` that a pod, or what starts it, is concerned by as well, or that have another default there."""

REFUSED = frozenset({"nproc", "overwrite"})
"""A pod is one worker; and a pod that is started again would remove what it is to resume."""

GIVEN = "tfdist.cli.manifest.given"
"""Key of a context's `meta`: the command line behind `tfdist manifest`."""


class ManifestVerb(shared.TargetVerb):
    """Takes the options of `train` as well."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += passed_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = [str(ctx.info_name), *args]
        return super().parse_args(ctx, args)


def passed_options() -> list[click.Option]:
    """The options of `train` that are passed on to the pods as they are."""
    return [option for option in train_options() if option.name not in OWN | REFUSED]
