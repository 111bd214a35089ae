"""Options of a run that have no effect where it runs, and the reasons."""

from __future__ import annotations

from tfdist.launch.worker_options import WorkerOptions


def idle_options(options: WorkerOptions, *, workers: int, on_gpus: bool) -> list[str]:
    """A sentence for each option that was given and changes nothing.

    Args:
        options: Of the run.
        workers: How many the cluster has.
        on_gpus: Whether this worker computes on GPUs; all others do as it does.
    """
    found = []
    if options.memory_limit is not None and not on_gpus:
        found.append(
            f"The memory limit of {options.memory_limit} MiB (--memory-limit, or devices.memory_limit in a config) has "
            "no effect: it limits GPUs, and this run computes on CPUs."
        )
    if options.share_gpu and not on_gpus:
        found.append("--share-gpu has no effect: it is for workers that share a GPU, and this run computes on CPUs.")
    if options.shard_over != "all" and options.shard == "none":
        found.append(
            f"--shard-over {options.shard_over} has no effect: it says which workers share what --shard cuts, and "
            "--shard none cuts nothing."
        )
    if workers > 1:
        return found
    alone = "between workers, and this run has one."
    if options.compression != "none":
        found.append(f"--compression {options.compression} has no effect: it is for gradients that are sent {alone}")
    if options.communication in ("ring", "shm") and not on_gpus:  # of several GPUs of one worker it leaves NCCL out
        found.append(f"--communication {options.communication} has no effect: it is for collectives {alone}")
    if options.shard != "none":
        found.append(
            f"--shard {options.shard} has no effect: it cuts what several workers hold, and this run has one, which "
            "holds all. Give it --nproc N or --workers."
        )
    if options.shard_embeddings is not None:
        found.append(
            f"--shard-embeddings {options.shard_embeddings} has no effect: it gives each of several workers some "
            "rows, and this run has one, which has all. Give it --nproc N or --workers."
        )
    return found
