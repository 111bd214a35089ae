"""`tfdist plan`: what a run will do with its data, from sizes alone, or by a few steps of a script."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tfdist.cli import common_options as shared
from tfdist.cli.rehearsed import show_first_fit
from tfdist.cli.standard_streams import tf_lines_hidden
from tfdist.cli.train_target import check_overrides, choose_target
from tfdist.errors import TfdistError, UsageError

if TYPE_CHECKING:
    from tfdist.cluster.cluster_spec import Cluster
    from tfdist.plan.plan_inputs import ClusterSize


def layout_of(
    cluster: Cluster | None,
    gpus: int,
    logical: int | None,
    replicas: int | None = None,
    *,
    share_gpu: bool = False,
) -> ClusterSize:
    """The size of a cluster.

    Args:
        cluster: All workers; None for a single one.
        gpus: GPUs of each host, which its workers share.
        logical: Logical devices that each GPU is split into, or the CPU where there is none.
        replicas: Replicas of all workers together, when the user says so; None to count devices.
        share_gpu: Whether workers of a host share its GPUs where there are fewer of these.

    Raises:
        UsageError: TensorFlow cannot train so.
    """
    from tfdist.plan.plan_inputs import ClusterSize

    workers = 1 if cluster is None else len(cluster)
    names = [] if cluster is None else [address.host for address in cluster.workers]
    hosts = max(1, len(set(names)))
    if replicas is not None:
        return ClusterSize(workers, replicas, hosts)
    crowded = max((names.count(name) for name in set(names)), default=1)
    if 0 < gpus < crowded and not share_gpu:
        raise UsageError(
            f"{crowded} workers on one host need a GPU each. Received: {gpus} GPU(s). Start at most {gpus} worker(s) "
            "on a host, let workers share a GPU with devices.share_gpu=true (--share-gpu of tfdist train), or split a "
            "GPU among replicas of one worker with devices.logical."
        )
    if not gpus and workers > 1 and (logical or 1) > 1:
        raise UsageError(
            "devices.logical splits the CPU for one worker alone: of several workers on the CPU, TensorFlow would use "
            f"one logical device each. Received: devices.logical={logical} with {workers} workers. Leave it out, start "
            "one worker, or say with --replicas how many the workers' GPUs make."
        )
    return ClusterSize(workers, workers * max(1, gpus // crowded) * (logical or 1), hosts)


if TYPE_CHECKING:
    from tfdist.config import RunConfig
    from tfdist.config.schema import DevicesConfig
    from tfdist.launch.gpus.usable_gpus import GpuCount
    from tfdist.launch.job_spec import JobSpec
    from tfdist.plan.memory.memory_plan import MemoryPlan
    from tfdist.plan.plan import DataPlan
    from tfdist.plan.plan_inputs import ClusterSize

_TRACE_SECONDS = 300


@click.command(cls=shared.TargetVerb, options_metavar="[OPTIONS]")
@shared.target("Plan")
@shared.overrides
@click.option("--workers", metavar="LIST", help="Plan for this cluster: host1:20000,host2:20000.")
@shared.count("--nproc", "Plan for N workers on one machine; a script is tried on so many.")
@shared.devices
@shared.count("--logical-devices", "Split each GPU, or the CPU when there is none, into N logical devices.")
@shared.share_gpu
@shared.batch_norm
@shared.communication
@shared.jit
@shared.kernels
@shared.sharding
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="R",
    show_default="this machine's GPUs, as on every host",
    help="Plan for R replicas in all, equally many on each worker.",
)
@click.option("--memory", is_flag=True, help="And what a device will hold: in each mode of --shard, or by --tensor.")
@shared.count("--device-memory", "With --memory: MiB that each device has.", "this machine's")
@shared.seconds(
    "--timeout",
    _TRACE_SECONDS,
    "How long a script may take to make the first steps of its fit; with --memory, how long it may take to trace a "
    "step of a config's model.",
)
@shared.as_json("As JSON, sizes in bytes.")
@shared.tracebacks
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    arguments: tuple[str, ...],
    module: str | None,
    overrides: tuple[str, ...],
    memory: bool,
    device_memory: int | None,
    **options: Any,
) -> None:
    """Shows what a run will do, before it starts: of a config by sizes, of a script by a few steps.

    TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE, as for `tfdist train`.

    A script is run as far as its first fit, which makes a few steps: steps an epoch, the global batch and the rows of
    each worker, parameters, memory, what is exact by which means, what a step sends and takes. Then it is ended: no
    code behind the fit is run, no callback is called, and nothing that Keras writes is kept.

    Of a config nothing is trained, and no GPU is needed. Samples, batches and steps, the last batch of an epoch, which
    worker reads which files, memory, and warnings. With --memory also weights, gradients, optimizer state and
    activations on a device, and the first mode of --shard that fits: the model is traced in a process of its own, and
    no weight is made.

    Exits with 2 when the config or the number of workers cannot be used, or a script has no fit; with 4 when a script
    fails or takes too long, with 5 when the data cannot be read.
    """
    target = choose_target(module, arguments)
    check_overrides(target, overrides)
    if device_memory is not None and not memory:
        raise UsageError(f"--device-memory is what --memory compares with. Received: {device_memory} without --memory")
    if target.kind != "config":
        _check_of_script(ctx)
        show_first_fit(target, memory=memory, **options)
        return
    _of_config(target.target, overrides, memory, device_memory, **options)


def _of_config(
    path: str,
    overrides: tuple[str, ...],
    memory: bool,
    device_memory: int | None,
    *,
    workers: str | None,
    nproc: int | None,
    replicas: int | None,
    timeout: float,
    as_json: bool,
    devices: tuple[int, ...] | None,
    logical_devices: int | None,
    share_gpu: bool,
    communication: str,
    verbose: bool,
    **chosen: Any,
) -> None:
    """The plan of a config's data and, with `memory`, of what its devices hold."""
    # Imported here: YAML's parser and NumPy take longer to load than `tfdist --help` may take.
    from tfdist.config.load import load_config
    from tfdist.data.format_registry import plan_run
    from tfdist.plan.plan_json import to_json
    from tfdist.plan.plan_table import render

    split = [] if logical_devices is None else [f"devices.logical={logical_devices}"]
    shares = ["devices.share_gpu=true"] if share_gpu else []
    config = load_config(path, shared.with_chosen([*overrides, *split, *shares], **chosen))
    with tf_lines_hidden():  # what a generator's function imports
        size = _layout(workers, nproc, replicas, config.devices, devices)
        _check_groups(config, size)
        made = plan_run(config, size)
    held = _memory(config, made, device_memory, timeout) if memory else None
    if as_json:
        from tfdist.plan.memory.memory_json import memory_to_json

        more = {} if held is None else {"memory": memory_to_json(held)}
        click.echo(json.dumps({**to_json(made), **more}, indent=2))
        return
    click.echo(render(made))
    if held is not None:
        from tfdist.plan.memory.memory_table import render_memory

        click.echo(f"\n{render_memory(held)}")
        if config.context > 1:
            whole = "Activations are those of whole samples: what"
            click.echo(f"\n{whole} --context {config.context} saves of them is not counted.")


def _check_groups(config: RunConfig, size: ClusterSize) -> None:
    """Refuses `--tensor` and `--context` where a run would."""
    from tfdist.sharding.group_sizes import check_group_sizes, check_groups

    sizes = {"tensor": config.tensor, "context": config.context}
    check_group_sizes(**sizes, devices=size.per_worker, which=f"{size.per_worker} devices in each worker")
    check_groups(size.workers, **sizes)


def _check_of_script(ctx: click.Context) -> None:
    """A script is tried on this machine; what describes another one is for configs, from sizes alone."""
    for name in ("workers", "replicas", "device_memory"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} plans a config from sizes alone, and a script is tried on this machine. Expected --nproc or "
                f"--logical-devices. Received: {option} {ctx.params[name]}"
            )


def _memory(config: RunConfig, made: DataPlan, device_memory: int | None, seconds: float) -> MemoryPlan:
    """Returns what each device of a run will hold."""
    from tfdist.launch.config_process import ask_step_sizes
    from tfdist.plan.memory.memory_plan import plan_memory
    from tfdist.plan.memory.step_sizes import StepSizes

    gpus = _count_gpus().count
    known, device = _device_memory(made.layout, device_memory)
    sizes = StepSizes.from_json(ask_step_sizes(config, made.train.batch.largest, seconds))
    options = (config.offload, config.shard_over, config.tensor, config.shard)
    return plan_memory(made, sizes, known, device, gpus > 0, *options)


def _device_memory(layout: ClusterSize, given: int | None) -> tuple[int | None, str]:
    """Bytes of a device, and which that is: as described, a GPU of this machine, or a share of its memory."""
    if given is not None:
        return given << 20, "the device"
    from tfdist.doctor.machine.machine_facts import ask, this_machine

    gpus = ask().gpus
    if gpus:
        least = min((gpu.memory for gpu in gpus if gpu.memory is not None), default=None)
        sharing = -(-layout.workers // layout.hosts // len(gpus))
        if least is None or sharing == 1:
            return least, "a GPU of this machine"
        return least // sharing, f"each of {sharing} workers that share a GPU of this machine"
    memory = this_machine().memory
    here = layout.workers // layout.hosts * layout.per_worker
    share = "this machine" if here == 1 else f"each of {here} devices that share this machine's memory"
    return (None if memory is None else memory // here), share


def _layout(
    workers: str | None,
    nproc: int | None,
    replicas: int | None,
    devices: DevicesConfig,
    used: tuple[int, ...] | None = None,
) -> ClusterSize:
    if workers is not None and nproc is not None:
        raise UsageError(
            "--workers gives the whole cluster and --nproc makes one of this machine alone: give one of the two. "
            f"Received: --workers {workers} --nproc {nproc}"
        )
    from tfdist.cluster.cluster_spec import Cluster
    from tfdist.cluster.discover import discover
    from tfdist.launch.gpus.worker_choice import choose_workers

    found = None if replicas is not None else _count_gpus()
    if found is not None and used is not None:
        found = replace(found, count=min(found.count, len(used)))
    if workers is not None:
        # This machine need not be one of the cluster's hosts.
        cluster: Cluster | None = Cluster.parse(workers)
    else:
        membership = discover(nproc=nproc)
        if found is not None:
            chosen = choose_workers(lambda: found, membership=membership, logical=devices.logical)
            membership = chosen.membership(membership)
        cluster = membership.cluster
    gpus = 0 if found is None else found.count
    return layout_of(cluster, gpus, devices.logical, replicas, share_gpu=devices.share_gpu)


def _count_gpus() -> GpuCount:
    """The GPUs of this machine."""
    # Imported here: `tfdist --help` does not need it.
    from tfdist.launch.environment import count_gpus_here

    return count_gpus_here()


def planned(config: RunConfig, job: JobSpec) -> str:
    """The plan of a run that is about to start here, as `tfdist train --verbose` shows it; or why there is none."""
    from tfdist.config.data_sections import GeneratorSource
    from tfdist.data.format_registry import plan_run
    from tfdist.plan.plan_table import render

    if any(isinstance(section, GeneratorSource) for section in (config.data.train, config.data.validation)):
        return f"{config.name}: no plan of its data here: a function makes it. tfdist plan calls it, and has the plan."
    try:
        gpus = _count_gpus().count if job.devices is None else len(job.devices)
        cluster = job.membership.cluster
        return render(plan_run(config, layout_of(cluster, gpus, job.logical_devices, share_gpu=job.share_gpu)))
    except TfdistError as error:
        # A failing plan does not end the run: its workers will report the same error.
        return f"{config.name}: no plan of its data: {error}"
