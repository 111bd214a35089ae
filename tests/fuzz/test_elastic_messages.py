"""What launchers of an elastic job say to one another, as it should not be."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed, changed_json
from tests.fuzz.properties import fuzzed
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.launch.elastic.gathering import Candidate, Gathering
from tfdist.launch.elastic.generation import Generation
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket

CLUSTER = Cluster.parse("a:20000,b:20000,c:20000,c:20001")
BEGIN = Generation(3, (0, 2, 3), 20001).to_message()


@fuzzed(150, content=changed(BEGIN))
def test_a_generation_is_one_of_the_list_or_is_refused(content: Any) -> None:
    membership = Membership(CLUSTER, (2, 3))
    with contextlib.suppress(LineError):
        generation = Generation.from_message(content)
        found = generation.membership(membership)
        assert found.num_workers == len(generation.members)
        assert found.cluster is not None
        assert all(str(found.cluster.workers[place]).startswith("c:") for place in found.local)


@fuzzed(100, messages=st.lists(changed_json({"ready": True}, {"refusal": {"text": "no", "code": 3}})))
def test_one_that_knocks_is_ready_refuses_or_is_gone(messages: list[bytes]) -> None:
    said: list[str] = []
    gathering = Gathering(Membership(CLUSTER, (0,)), {}, None, said.append)
    ours, theirs = socket.socketpair()
    with contextlib.closing(gathering), theirs:
        candidate = Candidate(Hello.own(CLUSTER, (2, 3)), LineSocket(ours))
        gathering.add(candidate)
        theirs.sendall(b"".join(message + b"\n" for message in messages)[:65536])
        gathering.step("wait")
        assert gathering.present() in ((0,), (0, 2, 3))
        assert all(len(text) < 1000 for text in said)
