"""`tfdist train`: trains a config, a script or a module."""

from __future__ import annotations

import math
from typing import Any

import click

from tfdist.cli.target import Target, choose_target, separate
from tfdist.cli.verb import Verb
from tfdist.cluster.discover import discover
from tfdist.cluster.interfaces import own_addresses
from tfdist.errors import UsageError
from tfdist.launch.job import JobSpec, run_job
from tfdist.launch.network import public_warning


class DeviceList(click.ParamType):
    """Numbers of GPUs, such as `0,1`."""

    name = "device list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        entries = [entry.strip() for entry in str(value).split(",")]
        if not all(entry.isascii() and entry.isdigit() for entry in entries):
            self.fail(f"expected numbers of GPUs from 0, such as 0,1. Received: {value!r}", param, ctx)
        numbers = tuple(int(entry) for entry in entries)
        if len(set(numbers)) < len(numbers):
            self.fail(f"expected every GPU once. Received: {value!r}", param, ctx)
        return numbers


class Seconds(click.ParamType):
    """A wait: more than nothing, and with an end."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = click.FLOAT.convert(value, param, ctx)
        if not 0 < seconds < math.inf:
            self.fail(f"expected a number of seconds above 0. Received: {value}", param, ctx)
        return seconds


class TrainVerb(Verb):
    """Takes options up to the target; what follows a script or a module is its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [option for option in self.params if isinstance(option, click.Option) and not option.is_flag]
        return super().parse_args(ctx, separate(args, {name for option in options for name in option.opts}))


def _seconds(name: str, default: float, text: str) -> Any:
    return click.option(name, type=Seconds(), default=default, show_default=True, metavar="S", help=text)


@click.command(cls=TrainVerb, options_metavar="[OPTIONS]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[TARGET] [ARGS]...")
@click.option("-m", "module", metavar="MODULE", help="Train a module; all that follows is its own.")
@click.option("--workers", metavar="LIST", help="The whole cluster, the same on every host: host1:20000,host2:20000.")
@click.option("--index", type=click.IntRange(min=0), metavar="I", help="Start entry I of the cluster only.")
@click.option("--nproc", type=click.IntRange(min=1), metavar="N", help="N workers on this machine, ports chosen.")
@click.option("--devices", type=DeviceList(), metavar="0,1", help="Which GPUs.")
@click.option(
    "--logical-devices",
    type=click.IntRange(min=1),
    metavar="N",
    help="Split each GPU, or the CPU when there is none, into N logical devices.",
)
@click.option("--memory-limit", type=click.IntRange(min=1), metavar="MiB", help="Of each logical GPU; CPUs have none.")
@click.option(
    "--communication",
    type=click.Choice(["auto", "nccl", "ring"]),
    default="auto",
    show_default=True,
    help="The collectives between devices of several workers.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "bfloat16", "float16"]),
    default="none",
    show_default=True,
    help="Send gradients between workers in 16 bits: faster, and no longer exact.",
)
@click.option("--run-dir", metavar="DIR", help="Where the run writes; default runs/NAME-DATE-TIME.")
@click.option("--overwrite", is_flag=True, help="Replace the earlier run in the run directory.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Overrides one config entry, dotted; repeatable."
)
@_seconds("--start-timeout", 120, "How long the cluster may take to form.")
@_seconds("--first-step-timeout", 1800, "How long the first step may take, which compiles.")
@_seconds("--step-timeout", 600, "How long the workers may take without any progress.")
@_seconds("--grace", 30, "How long the workers may take to stop at a step boundary when asked to.")
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Restart all workers when one fails; only restarts without progress between them count.",
)
@click.option(
    "--resume",
    type=click.Choice(["auto", "must", "never"]),
    default="never",
    show_default=True,
    help="Go on from the checkpoint in the run directory.",
)
@click.option(
    "--network",
    type=click.Choice(["host", "private"]),
    default="host",
    show_default=True,
    help="private: all workers on this machine, in a network of their own that nobody else reaches. The price: they "
    "have no network at all, so no downloads.",
)
@click.option(
    "--show",
    type=click.Choice(["chief", "all", "none"]),
    default="chief",
    show_default=True,
    help="Whose output the terminal shows; the logs have all.",
)
@click.option("--log-prefix", is_flag=True, help="Put the worker's number before every line shown.")
@click.option("--verbose", is_flag=True, help="Say more, and show tracebacks.")
@click.pass_context
def train(
    ctx: click.Context,
    /,
    arguments: tuple[str, ...],
    module: str | None,
    workers: str | None,
    index: int | None,
    nproc: int | None,
    **options: Any,
) -> None:
    """Trains a config, a script or a module on every device and worker, with the numbers of one device.

    TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE. After a config options may follow;
    after a script or a module everything is its own.
    """
    target = choose_target(module, arguments)
    membership = discover(workers, index, nproc)
    warning = public_warning(options["network"], membership, own_addresses())
    if warning is not None:
        click.echo(warning, err=True)
    ctx.exit(run_job(_job(target, membership=membership, **options)))


def _job(target: Target, **options: Any) -> JobSpec:
    """The job: the options of the command line, and what a config says where they are silent."""
    name, seed = target.name, None
    if target.kind == "config":
        # Imported here: YAML's parser takes longer than all else that a script's launcher needs.
        from tfdist.config.load import load_config, settings

        config = load_config(target.target, options["overrides"])
        name, seed = config.name, config.seed
        options["settings"] = settings(config)
        options["logical_devices"] = options["logical_devices"] or config.devices.logical
        options["memory_limit"] = options["memory_limit"] or config.devices.memory_limit
        if options["verbose"] and options["membership"].has_chief:
            from tfdist.cli.plan import planned

            plan = planned(config, options["membership"], options["devices"], options["logical_devices"])
            click.echo(f"{plan}\n", err=True)
    elif options["overrides"]:
        raise UsageError(
            f"--set overrides an entry of a config, and {target.target} is none. Expected a CONFIG.yaml. "
            f"Received: --set {options['overrides'][0]}"
        )
    return JobSpec(target_kind=target.kind, target=target.target, args=target.args, name=name, seed=seed, **options)
