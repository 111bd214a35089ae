"""Layout of a run that has not started: its workers, hosts and replicas, as far as they can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist.errors import UsageError

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
