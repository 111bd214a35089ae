from __future__ import annotations

import pytest

from tfdist.cluster.kubernetes import expand_workers
from tfdist.errors import UsageError
from tfdist.multihost.kubernetes.pod_naming import Kind, check_lengths, worker_pattern


@pytest.mark.parametrize(
    ("kind", "pattern", "last"),
    [
        ("job", "digits-{0-10}.digits:20000", "digits-10.digits"),
        ("jobset", "digits-worker-0-{0-10}.digits:20000", "digits-worker-0-10.digits"),
        ("trainjob", "digits-node-0-{0-10}.digits:20000", "digits-node-0-10.digits"),
    ],
)
def test_pods_find_one_another_by_a_pattern(kind: Kind, pattern: str, last: str) -> None:
    assert worker_pattern(kind, "digits", 11, 20000) == pattern
    workers = expand_workers(pattern).workers
    assert (len(workers), workers[10].host, workers[10].port) == (11, last, 20000)


@pytest.mark.parametrize(
    ("kind", "workers", "most"),
    [("job", 10, 61), ("job", 11, 60), ("jobset", 10, 46), ("jobset", 101, 44), ("trainjob", 2, 48)],
)
def test_the_longest_name(kind: Kind, workers: int, most: int) -> None:
    """63 letters, of the host name, or of the pod's with the five letters and a dash that a JobSet counts."""
    check_lengths(kind, "a" * most, workers)
    with pytest.raises(UsageError, match=f"--name of {most} characters at most. Received: {most + 1}"):
        check_lengths(kind, "a" * (most + 1), workers)
