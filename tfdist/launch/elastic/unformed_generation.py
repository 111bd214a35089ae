"""A generation whose launchers do not meet: which of them are lost, so that the next one begins without them."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfdist.cluster.cluster_spec import Cluster
from tfdist.errors import FormingError
from tfdist.launch.elastic.generation import CHIEF, Generation
from tfdist.launch.peers.peer_links import lost_launcher
from tfdist.launch.rendezvous.join_barrier import LateError
from tfdist.launch.rendezvous.missing_workers import describe_outcome
from tfdist.rundir.failure import Failure

if TYPE_CHECKING:
    from tfdist.launch.elastic.gathering import Candidate


def lost_members(
    error: FormingError, generation: Generation, cluster: Cluster | None, members: Sequence[Candidate]
) -> tuple[Failure, ...]:
    """The launchers that did not come; the chief's own stands for what is nobody's fault, as far as it knows.

    Args:
        error: Why the chief's launcher has given up.
        generation: The generation.
        cluster: Its workers; None where there is one.
        members: Its launchers but the chief's, as they have knocked.
    """
    place = {index: rank for rank, index in enumerate(generation.members)}
    addresses = [] if cluster is None else [str(worker) for worker in cluster.workers]
    late = error.missing if isinstance(error, LateError) else {}
    found = []
    for member in members:
        workers = [place[index] for index in member.hello.local]
        absent = [worker for worker in workers if worker in late]
        address = addresses[workers[0]]
        if member.line.is_closed():
            found.append(lost_launcher(member.host, workers, address))
        elif absent:
            seen = f"it {describe_outcome(late[absent[0]])}, though its launcher has answered before"
            found.append(Failure(absent[0], member.host, time.time(), "lost", seen, address=address))
    return tuple(found) or (Failure(CHIEF, socket.gethostname(), time.time(), "lost", str(error)),)
