"""`tfdist verify`: compares a training on one replica with several, or a killed run with an untouched one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tfdist.cli import common_options as shared
from tfdist.cli.train_target import Target, check_overrides, choose_target
from tfdist.errors import UsageError

NOT_WITH_KILL = ("replicas", "tolerance", "also")
NOT_WITH_HOSTS = ("replicas", "nproc", "also")
WITH_HOSTS = ("min_workers", "cut")


def check_mode(ctx: click.Context, options: dict[str, Any]) -> None:
    """Checks that the options belong to the same kind of comparison.

    Args:
        ctx: Knows which were given.

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


_SEED, _STEPS, _WORKERS = 1, 5, 2


class ToleranceParam(click.ParamType):
    """A relative difference."""

    name = "tolerance"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        tolerance = click.FLOAT.convert(value, param, ctx)
        if not 0 <= tolerance < 1:
            self.fail(f"expected a relative difference from 0 and below 1. Received: {value}", param, ctx)
        return tolerance


@click.command(cls=shared.TargetVerb, options_metavar="[OPTIONS]")
@shared.target("Verify")
@shared.count(
    "--replicas",
    "Replicas in one process, on logical devices where there are not enough GPUs; 1 for none.",
    default=2,
)
@shared.count(
    "--nproc",
    "Compare with N worker processes too; with --kill, the workers of each run.",
    "none, and 2 with --kill",
)
@shared.count("--steps", "Training steps.", "5, and all of the training with --kill")
@click.option("--kill", is_flag=True, help="Kill workers at some steps, and compare with an untouched run.")
@shared.count("--kills", "How often, with --kill.", default=3)
@shared.count(
    "--hosts",
    "With --kill: train on N hosts, which are network namespaces of this machine, and let hosts be lost and come back. "
    "Needs root.",
)
@shared.count("--min-workers", "With --hosts, how few go on without the others.", "more than half")
@click.option("--cut", is_flag=True, help="With --hosts, cut the links of some hosts as well, as they are lost.")
@click.option(
    "--tolerance",
    type=ToleranceParam(),
    metavar="X",
    show_default="ten times the measured effect of rounding",
    help="Relative difference that passes.",
)
@click.option(
    "--also",
    multiple=True,
    type=click.Choice(["xla", "communication", "precision"]),
    help="Compare XLA on with off, NCCL with RING, mixed precision with float32; repeatable.",
)
@click.option(
    "-o",
    "--output",
    "report",
    cls=shared.RenamedOption,
    former=["--report"],
    metavar="FILE",
    help="Write everything that was compared, as JSON.",
)
@click.option("--seed", type=click.IntRange(min=0, max=2**32 - 1), metavar="N", help="Of every run.")
@shared.devices
@shared.computation
@shared.overrides
@shared.seconds("--start-timeout", 120, "How long the workers may take to find one another.")
@shared.seconds("--step-timeout", 600, "How long a step may take.")
@click.option("--keep", metavar="DIR", help="Keep the run directories here: a new or an empty directory.")
@shared.show("none", "Whose output the terminal shows.")
@shared.verbose
@click.pass_context
def verify(
    ctx: click.Context, /, arguments: tuple[str, ...], module: str | None, report: str | None, **options: Any
) -> None:
    """Compares a training on one replica with the same on several, or one that is killed with an untouched one.

    TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE, as for `tfdist train`. It is run
    several times for a few steps, with one seed, and compared step by step. Exits with 0 when all runs are the same up
    to rounding, else with 6.

    With --kill, workers are killed with SIGKILL at some of the steps, and the run, which resumes after each kill, must
    end as an untouched one: final weights to the bit, the order of samples, the history.

    With --kill --hosts N, the training is an elastic job on N hosts (--min-workers of `tfdist train`). Hosts, also that
    of the chief, are lost at some of the steps, and stay away or come back. The end must be the same up to rounding,
    and to the bit while the number of workers is the same.
    """
    target = choose_target(module, arguments)
    check_overrides(target, options["overrides"])
    check_mode(ctx, options)
    _check_report(report)
    # Imported here: NumPy takes longer to load than `tfdist --help` may take.
    from tfdist.verify.runs import Interrupted

    given = {name: options.pop(name) for name in ("overrides", "seed")}
    given["chosen"] = {name: options.pop(name) for name in shared.OF_CONFIGS}
    target_options = _target_options(target, **given)
    work = _compare if not options.pop("kill") else _kill if options["hosts"] is None else _lose_hosts
    try:
        code, said, document = work({**target_options, **options})
    except Interrupted as interrupted:
        ctx.exit(interrupted.code)
    click.echo(said)
    if report is not None:
        _write_report(report, document)
    ctx.exit(code)


def _compare(options: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    """One replica against several: the exit code, what to print, and the report."""
    from tfdist.verify.replicas.variants import VerifySpec
    from tfdist.verify.replicas.verification import verify as run
    from tfdist.verify.replicas.verification_report import render, to_json

    for name in ("kills", "hosts", *WITH_HOSTS):
        del options[name]
    spec = VerifySpec(**{**options, "steps": options["steps"] or _STEPS})
    verification = run(spec, _tell)
    return verification.code, render(verification, spec.steps), to_json(spec, verification)


def _kill(options: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    """A killed run against an untouched one: the same three."""
    from tfdist.verify.killing.kill_plan import KillSpec
    from tfdist.verify.killing.kill_report import render, to_json
    from tfdist.verify.killing.kill_verification import verify_killed

    workers = options.pop("nproc") or _WORKERS
    for name in (*NOT_WITH_KILL, "hosts", *WITH_HOSTS):
        del options[name]
    spec = KillSpec(workers=workers, **options)
    verification = verify_killed(spec, _tell)
    return verification.code, render(verification), to_json(spec, verification)


def _lose_hosts(options: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    """A run that loses hosts against an untouched one: the same three."""
    from tfdist.verify.hosts.hosts_report import render, to_json
    from tfdist.verify.hosts.hosts_verification import verify_hosts
    from tfdist.verify.hosts.schedule import HostsSpec

    for name in NOT_WITH_HOSTS:
        del options[name]
    spec = HostsSpec(**options)
    verification = verify_hosts(spec, _tell)
    return verification.code, render(verification), to_json(spec, verification)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _target_options(
    target: Target, overrides: tuple[str, ...], chosen: dict[str, str | int | None], seed: int | None
) -> dict[str, Any]:
    """What a `TargetSpec` says of the target; a config's own values hold unless the command line has others."""
    options: dict[str, Any] = {"target_kind": target.kind, "target": target.target, "args": target.args}
    if target.kind != "config":
        options |= {name: value for name, value in chosen.items() if value is not None}
        return {**options, "name": target.name, "seed": _SEED if seed is None else seed}
    from tfdist.config.load import build_config, read_config
    from tfdist.launch.worker_options import options_of

    document = read_config(target.target, shared.with_chosen(overrides, **chosen))
    config = build_config(document)
    seeds = (number for number in (seed, config.seed, _SEED) if number is not None)
    options |= {"name": config.name, "config": config, "document": document, "seed": next(seeds)}
    return {**options, **options_of(config)}


def _write_report(report: str, document: dict[str, Any]) -> None:
    from tfdist.rundir import atomic_files

    atomic_files.write_json(report, document, named_by="--output")


def _check_report(report: str | None) -> None:
    """Checks that the report can be written, before minutes of runs."""
    # Unlike Path.is_dir, os.path.isdir has no error for a directory that is closed to this user.
    if report is not None and (not os.path.isdir(Path(report).parent) or os.path.isdir(report)):
        raise UsageError(
            f"--output expects a file in a directory that exists. Received: --output {report}. Make the directory, or "
            "choose another file."
        )
    if report is not None and not os.access(Path(report).parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"--output expects a file in a directory that this user can write to. Received: --output {report}. Choose "
            "another file, or change the permissions."
        )
