"""Kubernetes: the cluster from the variables of a pod of an Indexed Job.

Kubernetes gives each pod of such a Job its number, JOB_COMPLETION_INDEX, and no list of the others. Their host names
follow from the Job's, so TFDIST_WORKERS, which has the list, is the same text in all of them. Each pod runs its own
`tfdist train` and starts its own worker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.cluster.membership import Membership
from tfdist.errors import ClusterError

INDEX = "JOB_COMPLETION_INDEX"
WORKERS = "TFDIST_WORKERS"
_SERVICE = "KUBERNETES_SERVICE_HOST"

USUAL_START_SECONDS = 120.0
POD_START_SECONDS = 900.0
"""Pods of one job wait for nodes and download images, some for minutes longer than others."""

MOST_WORKERS = 1 << 16
"""Of one job; text of a few letters could stand for more than a machine's memory holds."""
_MOST_LETTERS = 253
"""Of a host name (RFC 1035)."""
_RANGE = re.compile(r"\{([0-9]{1,9})-([0-9]{1,9})\}")
_EXAMPLE = "digits-{0-3}.digits:20000"
_SHOWN = 200


def start_seconds(environ: Mapping[str, str] | None = None) -> float:
    """Returns how long a cluster may take to form where nobody says it: longer in a pod, by `environ` or this
    process's."""
    source = os.environ if environ is None else environ
    return POD_START_SECONDS if source.get(_SERVICE) or INDEX in source else USUAL_START_SECONDS


def indexed_job_membership(environ: Mapping[str, str]) -> Membership | None:
    """This pod's membership; None where TFDIST_WORKERS is not set.

    The entry is found by its index alone: a pod's host name is `digits-0` where its entry is `digits-0.digits`.

    Raises:
        ClusterError: The list cannot be read, or the index is missing or beyond it.
    """
    if WORKERS not in environ:
        return None
    cluster = expand_workers(environ[WORKERS])
    index = _index(environ, cluster)
    if len(cluster) == 1:
        return Membership(None, (0,), source=f"{WORKERS} with one entry")
    host = cluster.workers[index].host
    machine = tuple(other for other, address in enumerate(cluster.workers) if address.host == host)
    return Membership(cluster, (index,), machine, source=f"Kubernetes ({INDEX} and {WORKERS})")


def expand_workers(text: str) -> Cluster:
    """`digits-{0-2}.digits:20000` -> digits-0.digits:20000, digits-1.digits:20000, digits-2.digits:20000.

    Args:
        text: host:port between commas; each entry may have one range of numbers in braces. A first number with leading
            zeros gives all the same number of digits.

    Raises:
        ClusterError: The text is not of that form.
    """
    addresses: list[Address] = []
    for entry in text.split(",") if text.strip() else []:
        try:
            addresses += [Address.parse(name) for name in _names(entry, MOST_WORKERS - len(addresses))]
        except ClusterError as error:
            raise _error(f"has an entry that is no worker. {error}", text) from None
    try:
        return Cluster(tuple(addresses))
    except ClusterError as error:
        raise _error(f"makes no cluster. {error}", text) from None


def _names(entry: str, most: int) -> list[str]:
    """The texts of the workers of one entry, at most so many."""
    ranges = list(_RANGE.finditer(entry))
    if not ranges and most > 0:
        return [entry]
    if len(ranges) > 1:
        raise ClusterError(f"Expected one range in an entry at most. Received: {entry[:_SHOWN]!r}")
    first, last = (ranges[0][1], ranges[0][2]) if ranges else ("1", "0")
    if not 0 <= int(last) - int(first) < most or len(entry) > 2 * _MOST_LETTERS:
        raise ClusterError(
            f"Expected a range that goes upward, and {MOST_WORKERS:,} workers at most. Received: {entry[:_SHOWN]!r}"
        )
    before, after = entry[: ranges[0].start()], entry[ranges[0].end() :]
    return [f"{before}{str(number).zfill(len(first))}{after}" for number in range(int(first), int(last) + 1)]


def _index(environ: Mapping[str, str], cluster: Cluster) -> int:
    """Returns which entry of the list this pod is."""
    if INDEX not in environ:
        raise ClusterError(
            f"{WORKERS} lists the pods of an Indexed Job, and {INDEX}, by which Kubernetes tells each which one it is, "
            f"is not set. Expected a Job with `completionMode: Indexed`, or no {WORKERS}. Received: {WORKERS}="
            f"{environ[WORKERS][:_SHOWN]!r} alone. Elsewhere give the list with --workers."
        )
    index = whole_number(environ[INDEX])
    if index is None:
        raise ClusterError(f"Kubernetes' {INDEX} must be a number. Received: {environ[INDEX][:_SHOWN]!r}")
    if index >= len(cluster):
        raise ClusterError(
            f"This pod has the index {index}, and {WORKERS} lists {len(cluster)} worker(s). Expected as many entries "
            f"as the Job has completions. Received: {INDEX}={index}, {WORKERS}={environ[WORKERS][:_SHOWN]!r}. Change "
            "the list or `completions`, which must equal `parallelism`."
        )
    return index


def _error(problem: str, text: str) -> ClusterError:
    return ClusterError(
        f"The environment variable {WORKERS} {problem}\nExpected host:port between commas, a range of numbers in "
        f"braces, such as {_EXAMPLE}. Received: {text[:_SHOWN]!r}"
    )
