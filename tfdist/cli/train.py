"""`tfdist train`: trains a config, a script or a module."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tfdist.cli import common_options as shared
from tfdist.cli.train_target import Target, check_overrides, choose_target
from tfdist.errors import UsageError

if TYPE_CHECKING:
    from tfdist.launch.job_spec import JobSpec

_DEBUG_SECONDS = 7 * 24 * 3600.0
"""The timeouts where a worker is debugged: longer than anybody thinks about a line."""


@click.command(cls=shared.TargetVerb, options_metavar="[OPTIONS]")
@shared.target("Train")
@click.option("--workers", metavar="LIST", help="The whole cluster, the same on every host: host1:20000,host2:20000.")
@click.option("--index", type=click.IntRange(min=0), metavar="I", help="Start entry I of the cluster only.")
@shared.count("--nproc", "Start N workers here, on free ports; 1: one process on all GPUs.", "one for each GPU")
@shared.devices
@shared.count("--logical-devices", "Split each GPU, or the CPU when there is none, into N logical devices.")
@shared.computation
@shared.check
@shared.strict
@click.option(
    "--run-dir",
    metavar="DIR",
    shell_complete=shared.files_here,
    show_default="runs/NAME-DATE-TIME",
    help="Where the run writes.",
)
@click.option("--overwrite", is_flag=True, help="Replace the earlier run in the run directory.")
@click.option(
    "--copy-to",
    metavar="URL",
    help="Keep a copy of the run directory in a bucket, s3://BUCKET/RUN; --resume goes on by it on a host without any.",
)
@click.option(
    "--fast-dev-run",
    is_flag=True,
    help="Only try it: two steps of training and of each validation of every fit, callbacks included. Nothing is kept.",
)
@click.option(
    "--no-save",
    "saves_results",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Write no history and no model of a script into the run directory; else the last fit's model is there.",
)
@shared.overrides
@click.option(
    "--start-timeout",
    type=shared.SecondsParam(),
    metavar="S",
    show_default="120; 900 in a pod of Kubernetes",
    help="How long the cluster may take to form.",
)
@shared.seconds("--first-step-timeout", 1800, "How long the first step, which compiles, may take.")
@shared.seconds("--step-timeout", 600, "How long the workers may make no progress.")
@shared.seconds("--grace", 30, "How long the workers may take to stop at a step boundary when asked to.")
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    metavar="N",
    help="Restart all workers when one fails; only restarts without progress between them count.",
    show_default="0, or 3 with --min-workers",
)
@click.option(
    "--min-workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="--workers are candidates: go on with N of them or more when a host is lost; more than half of the list.",
)
@click.option(
    "--rejoin-timeout",
    type=shared.SecondsParam(),
    metavar="S",
    show_default="60",
    help="With --min-workers, how long a host that is lost is waited for.",
)
@click.option("--grow", is_flag=True, help="With --min-workers, stop at a step to take in a host that has come.")
@click.option(
    "--max-requeues",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="How often a scheduler may stop this run (SIGTERM) and start it again before it gets any further; then it "
    "ends with 4, and not with 143, which schedulers requeue.",
)
@shared.choice(
    "--resume", ["auto", "must", "never"], "never", "Resume from the latest checkpoint in the run directory."
)
@click.option(
    "--checkpoint-every",
    metavar="STEPS|MINUTESm",
    help="Save after so many steps, 500, or minutes, 2.5m, besides at the end of every epoch.",
    show_default="what the config says; of a script every 10 minutes, where it is to resume",
)
@shared.choice(
    "--network",
    ["host", "private"],
    "host",
    "private: all workers on this machine, in a network of their own that nothing else reaches; they cannot "
    "download anything.",
)
@shared.show("chief", "Whose output the terminal shows; the logs have all.")
@shared.choice(
    "--log-format",
    ["text", "json"],
    "text",
    "json: one JSON object a line, for collectors of logs such as Loki and CloudWatch.",
)
@click.option(
    "--debug-worker",
    type=click.IntRange(min=0),
    metavar="I",
    help="Give worker I this terminal's input, for breakpoint() and input(), and show its output; the others pass by "
    "breakpoints, and no timeout counts. One worker alone has the input anyway.",
)
@click.option("--log-prefix", is_flag=True, help="Put the worker's number before every line shown.")
@shared.choice(
    "--progress",
    ["auto", "bar", "plain", "none"],
    "auto",
    "How the progress of a config's run is shown: a live bar, a line every 10 s, or nothing; auto: the bar on a "
    "terminal, else lines.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve metrics of the job to Prometheus, at http://127.0.0.1:PORT/metrics.",
)
@click.option(
    "--metrics-address",
    default="127.0.0.1",
    show_default=True,
    metavar="IP",
    help="Where --metrics-port listens; 0.0.0.0 on every interface.",
)
@shared.verbose
@click.option("--quiet", is_flag=True, help="Say nothing of the run itself, only warnings and errors.")
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
    if options["log_format"] == "json":
        from tfdist.launch.logs.log_records import LogRecords, recorded_streams

        ctx.with_resource(recorded_streams(LogRecords()))
    is_tried = options.pop("fast_dev_run")
    if is_tried:
        # Imported here: `tfdist train --help` does not need it.
        from tfdist.cli.rehearsed import check_fast_dev_run, run_fast_dev

        check_fast_dev_run(ctx)
    target = choose_target(module, arguments)
    # Imported here: `tfdist train --help` does not need it.
    from tfdist.cluster.discover import discover
    from tfdist.cluster.interfaces import own_addresses
    from tfdist.cluster.kubernetes import start_seconds
    from tfdist.launch.environment import count_gpus_here
    from tfdist.launch.gpus.worker_choice import with_chosen_workers
    from tfdist.launch.job import run_job, run_to_result, say_report
    from tfdist.launch.network_isolation import public_warning

    if options["start_timeout"] is None:
        options["start_timeout"] = start_seconds()
    membership = discover(workers, index, nproc)
    _prepare_debugging(ctx, options)
    warning = public_warning(options["network"], membership, own_addresses())
    if warning is not None:
        click.echo(warning, err=True)
    copy_to = options.pop("copy_to")
    job, chosen = with_chosen_workers(_job(target, membership=membership, **_elastic(options)), count_gpus_here)
    if job.debug_worker is None and job.membership.num_workers == 1:
        job = dataclasses.replace(job, debug_worker=0)
    _tell(job, chosen)
    if is_tried:
        ctx.exit(run_fast_dev(job))
    run = run_job
    if job.elastic is not None:
        from tfdist.launch.elastic.elastic_job import JobSteps, run_elastic_job

        run = functools.partial(run_elastic_job, steps=JobSteps(run_to_result, say_report))
    if copy_to is not None:
        from tfdist.launch.run_copy.run_copy import run_with_copy

        run = functools.partial(run_with_copy, url=copy_to, run=run)
    ctx.exit(run(job))


def _prepare_debugging(ctx: click.Context, options: dict[str, Any]) -> None:
    """Leaves out, for a debugged worker, what a person at a prompt does not want: timeouts and a bar."""
    if options["debug_worker"] is None:
        return
    defaults = {"step_timeout": _DEBUG_SECONDS, "first_step_timeout": _DEBUG_SECONDS, "progress": "none"}
    for name, value in defaults.items():
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            options[name] = value


def _tell(job: JobSpec, chosen: str) -> None:
    """Says how many workers were chosen and what they share, and with --verbose what the run will do with its data."""
    from tfdist.launch.environment import crowding

    for said in (chosen, crowding(len(job.membership.local))):
        if said and not job.quiet:
            click.echo(f"tfdist: {said}", err=True)
    if job.config is not None and job.verbose and job.membership.has_chief:
        from tfdist.cli.plan import planned

        click.echo(f"{planned(job.config, job)}\n", err=True)


def _elastic(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with those of an elastic job made one."""
    min_workers, grow = options.pop("min_workers"), options.pop("grow")
    rejoin_timeout, restarts = options.pop("rejoin_timeout"), options.pop("max_restarts")
    if min_workers is None and (grow or rejoin_timeout is not None):
        given = "--grow" if grow else f"--rejoin-timeout {rejoin_timeout:g}"
        raise UsageError(f"{given} is for a job that may lose hosts. Expected --min-workers N beside it.")
    if min_workers is None:
        return {**options, "max_restarts": restarts or 0}
    from tfdist.launch.elastic.elastic_options import MAX_RESTARTS, REJOIN_SECONDS, ElasticOptions

    elastic = ElasticOptions(min_workers, rejoin_timeout or REJOIN_SECONDS, grow)
    return {**options, "max_restarts": MAX_RESTARTS if restarts is None else restarts, "elastic": elastic}


def _check_save(target: Target, saves: bool) -> None:
    if target.kind == "config" and not saves:
        raise UsageError(
            f"--no-save is for scripts: the run of a config always has its model and history. Expected a script or -m "
            f"MODULE beside it. Received: --no-save {target.target}. For a trial of a config: --fast-dev-run"
        )


def _job(target: Target, **options: Any) -> JobSpec:
    """The job, from the command line and, for what that leaves open, the config."""
    from tfdist.launch.job_spec import JobSpec

    overrides = options.pop("overrides")
    chosen = {name: options.pop(name) for name in shared.OF_CONFIGS}
    check_overrides(target, overrides)
    _check_save(target, options["saves_results"])
    if target.kind != "config":
        options |= {name: value for name, value in chosen.items() if value is not None}
        return JobSpec(target_kind=target.kind, target=target.target, args=target.args, name=target.name, **options)
    # Imported here: YAML's parser takes longer than all else that a script's launcher needs.
    from tfdist.config.load import build_config, read_config
    from tfdist.data.files.missing_files import check_files
    from tfdist.launch.worker_options import CheckpointInterval

    every = options.pop("checkpoint_every")
    entries = () if every is None else CheckpointInterval.parse(every).config_entries()
    document = read_config(target.target, shared.with_chosen([*overrides, *entries], **chosen))
    config = build_config(document)
    preflight = functools.partial(check_files, config, document)
    return JobSpec.for_config(config, target=target.target, document=document, preflight=preflight, **options)
