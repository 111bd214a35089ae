from __future__ import annotations

import pytest

from tfdist.ray.job.driving import lost_reason

DIED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: NodeActor\n\tpid: 27404\n\tip: 10.0.0.2\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: ..."
)


class GetTimeoutError(Exception):
    """As Ray calls it."""


class OutOfMemoryError(Exception):
    """As Ray calls it."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError(DIED), "the process of its actor, pid 27404, died or was killed"),
        (RuntimeError("The actor is dead because its node has died. Node Id: 1f"), "the node died, or"),
        (RuntimeError("The actor 1f is unavailable: RpcError: RPC error: Socket closed"), "the node died, or"),
        (RuntimeError("ModuleNotFoundError: No module named 'tfdist'"), "tfdist is not installed there"),
        (RuntimeError("Something new."), "its actor died: Something new"),
        (GetTimeoutError("Get timed out"), "does not answer within 60 s"),
        (OutOfMemoryError("Task was killed due to the node running low on memory."), "for want of memory"),
    ],
)
def test_why_an_actor_was_lost(error: Exception, expected: str) -> None:
    assert expected in lost_reason(error)
