""""""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tfdist.launch.signals import Signals
from tfdist.ray.job import driving
from tfdist.ray.job.actors import Events
from tfdist.ray.job.driving import (
    NODE_DIED,
    Driving,
    Ending,
    NodeOutput,
    OwnStreams,
    exit_code,
    killed_text,
    lost_reason,
    lost_text,
)
from tfdist.ray.job.placement import Node, lay_out


def test_the_chiefs_output_is_written_as_it_comes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = NodeOutput(OwnStreams(), None)
    output.write(1, b"\x1b[2K 10 %")
    output.write(2, b"a warn")
    assert capfdbinary.readouterr() == (b"\x1b[2K 10 %", b"a warn")


def test_lines_of_others_begin_with_their_node(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = NodeOutput(OwnStreams(), "h2")
    output.write(1, b"one\ntw")
    output.write(1, b"o\nthr")
    assert capfdbinary.readouterr().out == b"[h2] one\n[h2] two\n"
    output.end()
    assert capfdbinary.readouterr().out == b"[h2] thr\n"


def test_errors_of_others_are_told_at_the_end_but_for_what_the_chief_said(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    streams = OwnStreams()
    chief, other = NodeOutput(streams, None), NodeOutput(streams, "h2")
    chief.write(2, b"error: worker 1 failed\n")
    other.write(2, b"error: worker 1 failed\nthe disk of h2 is full\n")
    assert capfdbinary.readouterr().err == b"error: worker 1 failed\n"
    other.tell_errors(chief.errors)
    assert capfdbinary.readouterr().err == b"[h2] the disk of h2 is full\n"


CHIEF, OTHER = lay_out({0: Node("a", "10.0.0.1", "h1"), 1: Node("b", "10.0.0.2", "h2")})
LOST = "gone"


@pytest.mark.parametrize(
    ("codes", "stopped", "expected"),
    [
        ((0, 0), None, 0),
        ((7, 7), None, 7),  # a script's own code
        ((4, 4), None, 4),
        ((0, 5), None, 5),  # the chief was done, and another one was not
        ((3, 2), None, 3),  # the chief's, where both failed
        ((-9, 4), None, 137),
        ((LOST, 143), None, 4),
        ((143, LOST), None, 4),  # the launcher of a lost actor stops as by SIGTERM, and the others with it
        ((130, 130), 2, 130),
        ((143, 143), 15, 143),
        ((LOST, LOST), 15, 143),  # asked to end, whatever was lost then
        ((0, 0), 2, 0),  # it was done before the signal came
    ],
)
def test_exit_code(codes: tuple[int | str, int | str], stopped: int | None, expected: int) -> None:
    endings = [
        Ending(machine, None, code) if isinstance(code, str) else Ending(machine, code)
        for machine, code in zip((CHIEF, OTHER), codes, strict=True)
    ]
    assert exit_code(endings, stopped) == expected


def test_what_is_said_of_a_lost_machine() -> None:
    text = lost_text(Ending(OTHER, None, "the node died"))
    assert text.startswith("error: lost h2 (10.0.0.2), which has worker 1: the node died. ")
    assert "--resume auto" in text


@pytest.mark.parametrize(("code", "expected"), [(0, None), (4, None), (None, None), (-15, "signal 15"), (-9, "memory")])
def test_what_is_said_of_a_launcher_that_a_signal_ended(code: int | None, expected: str | None) -> None:
    text = killed_text(Ending(OTHER, code, "" if code is not None else LOST))
    assert text is None if expected is None else expected in str(text)


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
