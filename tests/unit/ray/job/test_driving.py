from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tfdist.launch.signals import Signals
from tfdist.ray.job import driving
from tfdist.ray.job.actors import Events
from tfdist.ray.job.driving import NODE_DIED, Driving, lost_reason
from tfdist.ray.job.layout import Node, lay_out
from tfdist.ray.job.node_output import OwnStreams
from tfdist.ray.job.outcome import Ending

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
        (RuntimeError("The actor 1f is unavailable: RpcError: RPC error: Socket closed"), "its actor cannot be"),
        (RuntimeError("ModuleNotFoundError: No module named 'tfdist'"), "tfdist is not installed there"),
        (RuntimeError("Something new."), "its actor died: Something new"),
        (GetTimeoutError("Get timed out"), "does not answer within 60 s"),
        (OutOfMemoryError("Task was killed due to the node running low on memory."), "for want of memory"),
    ],
)
def test_why_an_actor_was_lost(error: Exception, expected: str) -> None:
    assert expected in lost_reason(error)


class RayError(Exception):
    """As Ray calls it."""


class ActorUnavailableError(RayError):
    """As Ray calls it."""


CHIEF, OTHER = lay_out({0: Node("a", "10.0.0.1", "h1"), 1: Node("b", "10.0.0.2", "h2")})
DONE = Events(code=0)
UNAVAILABLE = ActorUnavailableError("The actor 1f is unavailable: RpcError: RPC error: Socket closed")


class FakeRay:
    """A Ray whose answers are there at once.

    Args:
        answers: Machine -> what its actor answers, in order; the last one again and again.
        dead: The nodes that are dead, as Ray says in the end.
    """

    exceptions = SimpleNamespace(RayError=RayError, ActorUnavailableError=ActorUnavailableError)

    def __init__(self, answers: dict[Any, list[Events | Exception]], dead: tuple[str, ...] = ()) -> None:
        self._answers = {machine: list(each) for machine, each in answers.items()}
        self._dead = dead
        events = {machine: SimpleNamespace(remote=self._ask(machine)) for machine in answers}
        self.actors = {machine: SimpleNamespace(events=each) for machine, each in events.items()}

    def _ask(self, machine: Any) -> Callable[[], object]:
        left = self._answers[machine]

        class Reference:
            answer = None

        def remote() -> Reference:
            reference = Reference()
            reference.answer = left.pop(0) if len(left) > 1 else left[0]
            return reference

        return remote

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return references, []

    def get(self, reference: Any) -> Events:
        if isinstance(reference.answer, Exception):
            raise reference.answer
        return reference.answer

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": name, "Alive": False} for name in self._dead]


def driven(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> list[Ending]:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    dead = {each["NodeID"] for each in ray.nodes()}
    monkeypatch.setattr(driving, "dead_nodes", lambda ray, suspects: suspects & dead)
    with Signals() as signals:
        return Driving(ray, ray.actors, signals, 1.0, OwnStreams()).run()


def test_an_actor_that_is_out_of_reach_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay({CHIEF: [DONE], OTHER: [UNAVAILABLE, Events(), UNAVAILABLE, DONE]})
    assert [ending.code for ending in driven(ray, monkeypatch)] == [0, 0]


def test_an_actor_is_lost_for_what_ray_says_once_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay({CHIEF: [DONE], OTHER: [UNAVAILABLE, RayError(DIED)]})
    assert driven(ray, monkeypatch)[1].lost == "the process of its actor, pid 27404, died or was killed"
    ray = FakeRay({CHIEF: [DONE], OTHER: [RayError(DIED)]}, dead=("b",))
    assert driven(ray, monkeypatch)[1].lost == NODE_DIED


def test_an_actor_that_stays_out_of_reach_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "_UNAVAILABLE_SECONDS", 0.05)
    ray = FakeRay({CHIEF: [DONE], OTHER: [UNAVAILABLE]})
    assert driven(ray, monkeypatch)[1].lost == "its actor cannot be reached"
