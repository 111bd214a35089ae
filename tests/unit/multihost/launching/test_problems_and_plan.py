from __future__ import annotations

import dataclasses

import pytest

from tfdist.errors import FormingError, UsageError
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching.host_group import problem_of
from tfdist.multihost.launching.host_launch import plan_cluster, unused_slots
from tfdist.multihost.launching.host_link import HostProblem, launch_error, names
from tfdist.multihost.launching.protocol import HostFacts

FACTS = HostFacts("a", "boot-a", "10.0.0.1", (20_000, 20_001), 0, "/python")
OTHER = HostFacts("b", "boot-b", None, (30_000,), 2, "/python")


def test_one_cause_is_said_once() -> None:
    problems = {f"h{n}": HostProblem(f"has no h{n}", f"Try: ssh h{n}") for n in range(1, 12)}
    error = launch_error(problems, 20)
    assert isinstance(error, FormingError)
    shown = "h1, h2, h3, h4, h5, h6, h7, h8 and 3 more"
    assert str(error) == f"{shown}: has no h1. Try: ssh h1. Nothing was started."


def test_several_causes_have_a_line_each() -> None:
    error = launch_error({"h1": HostProblem("is {odd}"), "h2": HostProblem("refuses", "Do", code=2)}, 3)
    assert isinstance(error, FormingError)
    assert str(error) == (
        "2 of 3 hosts cannot be used, and nothing was started:\n  h1 is {odd}.\n  h2 refuses. Do."
    )


def test_what_can_be_mended_from_here_is_usage() -> None:
    assert isinstance(launch_error({"h1": HostProblem("lacks", code=2)}, 1), UsageError)


@pytest.mark.parametrize(
    ("refused", "what", "code"),
    [
        ({"what": "has 0 GPU(s).", "code": 2}, "has 0 GPU(s)", 2),
        ({"what": "x", "code": 9}, "x", 3),
        ({"what": "x", "code": [2]}, "x", 3),
        (None, "has refused without a word", 3),
    ],
)
def test_what_a_host_refuses_for(refused: object, what: str, code: int) -> None:
    assert problem_of(refused) == HostProblem(what, code=code)


def test_names_of_many() -> None:
    assert names(["a", "b"]) == "a, b"


def test_the_cluster_is_host_by_host() -> None:
    """By the address of the connection; where that is of no use, by the name."""
    cluster = plan_cluster({Host("h1"): FACTS, Host("h2"): OTHER})
    assert str(cluster) == "10.0.0.1:20000,10.0.0.1:20001,h2:30000"


def test_one_host_under_two_names_is_refused() -> None:
    again = dataclasses.replace(FACTS, address="10.0.0.9")
    with pytest.raises(UsageError, match="h1 and h9 are the same host, a"):
        plan_cluster({Host("h1"): FACTS, Host("h2"): OTHER, Host("h9"): again})


def test_slots_of_hosts_without_gpus_are_said_to_be_unused() -> None:
    assert unused_slots({Host("h1", (0, 1)): FACTS, Host("h2", (0,)): OTHER}).startswith("note: no GPU on h1, so slots")
    assert unused_slots({Host("h1"): FACTS, Host("h2", (0,)): OTHER}) == ""
