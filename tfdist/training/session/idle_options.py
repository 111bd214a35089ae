"""Options of a run that have no effect where it runs, and the reasons."""

from __future__ import annotations

from tfdist.sharding import ShardMode


def idle_options(
    *,
    workers: int,
    on_gpus: bool,
    memory_limit: int | None,
    compression: str,
    communication: str,
    shard: ShardMode = "none",
    shard_over: str | int = "all",
    shard_embeddings: int | None = None,
    share_gpu: bool = False,
) -> list[str]:
    """A sentence for each option that was given and changes nothing.

    Args:
        workers: How many the cluster has.
        on_gpus: Whether this worker computes on GPUs; all others do as it does.
        memory_limit: MiB of each logical device, as asked for; None for no limit.
        compression: The type in which gradients are to be sent; "none" for their own.
        communication: The collectives that were asked for; "auto" for none in particular.
        shard: What workers were to hold a part of; "none" for nothing.
        shard_over: Which workers were to share one copy of that; "all" for no groups.
        shard_embeddings: Of embeddings of more rows workers were to have some rows each; None for no embeddings.
        share_gpu: Whether workers were to share GPUs.
    """
    found = []
    if memory_limit is not None and not on_gpus:
        found.append(
            f"The memory limit of {memory_limit} MiB (--memory-limit, or devices.memory_limit in a config) has no "
            "effect: it limits GPUs, and this run computes on CPUs."
        )
    if share_gpu and not on_gpus:
        found.append("--share-gpu has no effect: it is for workers that share a GPU, and this run computes on CPUs.")
    if shard_over != "all" and shard == "none":
        found.append(
            f"--shard-over {shard_over} has no effect: it says which workers share what --shard cuts, and --shard none "
            "cuts nothing."
        )
    if workers > 1:
        return found
    alone = "between workers, and this run has one."
    if compression != "none":
        found.append(f"--compression {compression} has no effect: it is for gradients that are sent {alone}")
    if communication in ("ring", "shm") and not on_gpus:  # of several GPUs of one worker it leaves NCCL out
        found.append(f"--communication {communication} has no effect: it is for collectives {alone}")
    if shard != "none":
        found.append(
            f"--shard {shard} has no effect: it cuts what several workers hold, and this run has one, which holds all. "
            "Give it --nproc N or --workers."
        )
    if shard_embeddings is not None:
        found.append(
            f"--shard-embeddings {shard_embeddings} has no effect: it gives each of several workers some rows, and "
            "this run has one, which has all. Give it --nproc N or --workers."
        )
    return found
