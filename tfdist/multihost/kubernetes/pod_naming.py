"""The names of the pods of each kind of job, by which they find one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tfdist.errors import UsageError
from tfdist.multihost.kubernetes.accepted_values import MOST_LETTERS

Kind = Literal["job", "jobset", "trainjob"]


@dataclass(frozen=True)
class PodNaming:
    """The names that the controllers of a kind give to pods.

    Attributes:
        container: The container in which a worker runs.
        between: What stands between the name of the job and the index of a pod, in the pod's host name.
        behind: How many characters of a pod's name follow its index and count as well: those that are drawn.
        label: The label with the job's name that all of its pods have, and no others.
    """

    container: str
    between: str
    behind: int
    label: str


_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
NAMING: dict[Kind, PodNaming] = {
    "job": PodNaming("worker", "-", 0, "batch.kubernetes.io/job-name"),
    "jobset": PodNaming("worker", "-worker-0-", 6, _JOBSET_LABEL),
    # Kubeflow Trainer makes a JobSet of the TrainJob's name, and has these names in its code.
    "trainjob": PodNaming("node", "-node-0-", 6, _JOBSET_LABEL),
}
assert set(NAMING) == set(get_args(Kind))


def worker_pattern(kind: Kind, name: str, workers: int, port: int) -> str:
    """The list of a job's pods as `TFDIST_WORKERS` has it: `digits-{0-3}.digits:20000`."""
    return f"{name}{NAMING[kind].between}{{0-{workers - 1}}}.{name}:{port}"


def check_lengths(kind: Kind, name: str, workers: int) -> None:
    """Checks that the host name of the last pod is none too long.

    Raises:
        UsageError: It is.
    """
    naming = NAMING[kind]
    last = f"{name}{naming.between}{workers - 1}"
    most = MOST_LETTERS - naming.behind
    if len(last) > most:
        room = most - (len(last) - len(name))
        raise UsageError(
            f"The name is too long: the last of {workers} pods would be called {last}, and {most} characters are what "
            f"Kubernetes takes there. Expected --name of {room} characters at most. Received: {len(name)}"
        )
