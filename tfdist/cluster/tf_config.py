"""Writes and parses TF_CONFIG, the environment variable that tells TensorFlow its cluster."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tfdist import bounded_json
from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.errors import ClusterError

_EXPECTED = '{"cluster": {"worker": ["host1:20000", "host2:20000"]}, "task": {"type": "worker", "index": 0}}'
_JOBS = ("chief", "worker")


def tf_config(cluster: Cluster, index: int) -> dict[str, Any]:
    """TF_CONFIG's value for worker `index` of `cluster`.

    Raises:
        ClusterError: The cluster has no such worker.
    """
    cluster.check_index(index)
    workers = [str(address) for address in cluster.workers]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}


def tf_config_json(cluster: Cluster, index: int) -> str:
    """TF_CONFIG's value as JSON on one line."""
    return json.dumps(tf_config(cluster, index))


def tf_config_shell(cluster: Cluster, index: int) -> str:
    """A line that a POSIX shell can `eval`."""
    return f"export TF_CONFIG={shlex.quote(tf_config_json(cluster, index))}"


def parse_tf_config(text: str) -> tuple[Cluster, int]:
    """Parses a TF_CONFIG. A task of the job chief is worker 0; those of the job worker follow.

    Returns:
        The cluster and this process's index in it.

    Raises:
        ClusterError: It is not JSON, has no task, has jobs other than chief and worker, or its task is not in its
            cluster.
    """
    try:
        value = bounded_json.parse(text)
    except ValueError as error:
        raise _error(f"is not valid JSON ({error})", text) from None
    if not isinstance(value, dict):
        raise _error("must be a JSON object", text)
    jobs = _jobs(value.get("cluster"), text)
    chiefs, workers = jobs.get("chief", []), jobs.get("worker", [])
    if len(chiefs) > 1:
        raise _error("names more than one chief", text)
    try:
        cluster = Cluster(tuple(Address.parse(entry) for entry in [*chiefs, *workers]))
    except ClusterError as error:
        raise _error(f"has an invalid cluster. {error}", text) from None
    kind, index = _task(value.get("task"), text)
    if not 0 <= index < len(jobs.get(kind, [])):
        raise _error(f"has the task {kind} {index}, and its cluster has {len(jobs.get(kind, []))} of that job", text)
    return cluster, index + (len(chiefs) if kind == "worker" else 0)


def _jobs(jobs: Any, text: str) -> dict[str, list[str]]:
    if not isinstance(jobs, dict) or not jobs:
        raise _error('has no "cluster" with a list of workers', text)
    for job, entries in jobs.items():
        if job not in _JOBS:
            raise _error(f"has a job {job!r}; tfdist trains with chief and worker only", text)
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise _error(f"must give job {job!r} as a list of host:port strings", text)
    return jobs


def _task(task: Any, text: str) -> tuple[str, int]:
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise _error('has no "task" with "type" and "index", which say which worker this process is', text)
    kind, index = task["type"], task["index"]
    if kind not in _JOBS:
        raise _error(f"has a task of type {kind!r}; tfdist trains with chief and worker only", text)
    # Some job managers write the index as text; TensorFlow itself accepts that too.
    if isinstance(index, str):
        index = whole_number(index)
    if not isinstance(index, int) or isinstance(index, bool):
        raise _error("must give the task's index as a whole number", text)
    return kind, index


def _error(problem: str, text: str) -> ClusterError:
    return ClusterError(
        f"The environment variable TF_CONFIG {problem}. Expected, for example: {_EXPECTED}. Received: {text[:500]}\n"
        "Correct it, or unset TF_CONFIG and give the list with --workers."
    )
