"""Meshes of some of the workers of a host, who make links of their own and hand them to one another.

Exchanges over one mesh come in one order on all its workers, and those of two groups that share workers need not: so
each group has a mesh of its own, and so has each direction between two workers.

The first of the workers makes the links and offers each other one its ends. These answer whether they could take them,
and the first then says to all what comes of it: either all have a mesh, or all get the same error.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from tfdist.errors import WorkerFailedError
from tfdist.net.host_links import HostLinks, LinkEnds
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.link_mailbox import ENDED, Box, LinkMailbox, Message, has_ended

OFFER, ANSWER, VERDICT = "offer", "answer", "verdict"
"""Kinds of messages. The text of the last two says why there is no mesh; it is empty where there is one."""


class GroupMeshes:
    """Makes one worker's ends of meshes, and keeps them as long as it lives itself.

    Args:
        mailbox: The worker's, over which links are handed.
    """

    def __init__(self, mailbox: LinkMailbox) -> None:
        self._mailbox = mailbox
        # Also those of groups of which a worker has ended meanwhile: others of them may be in an exchange already, and
        # are to hear of that worker's end, not of this one's.
        self._made: dict[str, HostMesh] = {}

    def make(self, group: str, workers: Sequence[int], region_bytes: int) -> HostMesh:
        """This worker's end of a new mesh; all its workers call it, and wait for one another.

        Args:
            group: A name for the workers and their use of the mesh, the same on all of them. After an error it may be
                tried again.
            workers: Their indices, ascending, this one among them.
            region_bytes: The memory for each of them.

        Raises:
            WorkerFailedError: One of them has ended, or one gets no memory or no descriptors from the system.
        """
        with self._mailbox.box(group, workers) as box:
            if workers[0] == self._mailbox.worker:
                refusal = self._lead(group, workers, region_bytes, box)
            else:
                refusal = self._follow(group, workers, box)
        if not refusal:
            return self._made[group]
        if group in self._made:
            self._made.pop(group).close()
        raise WorkerFailedError(
            f"Workers {_texts(workers)} cannot exchange in shared memory: {refusal}. A higher limit of open files "
            "(ulimit -n), more memory or --communication ring mends it."
        )

    def close(self) -> None:
        """Hangs up."""
        self._mailbox.close()
        for mesh in self._made.values():
            mesh.close()

    def _lead(self, group: str, workers: Sequence[int], region_bytes: int, box: Box) -> str:
        others = workers[1:]
        refusal, offered = "", 0
        try:
            with HostLinks(workers, region_bytes) as links:
                self._made[group] = _mesh_of(links.taken_by(workers[0]))
                for other in others:
                    self._mailbox.send(other, group, Message(OFFER, "", links.ends_of(other).descriptors))
                    offered += 1
        except OSError as error:
            refusal = self._refusal(error)
        for _ in range(offered):
            refusal = _next(box, workers).text or refusal
        for other in others:
            self._mailbox.send(other, group, Message(VERDICT, refusal))
        return refusal

    def _follow(self, group: str, workers: Sequence[int], box: Box) -> str:
        offer = _next(box, workers)
        if offer.kind == VERDICT:
            return offer.text
        refusal = ""
        try:
            if not offer.descriptors:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self._made[group] = _mesh_of(LinkEnds.of(self._mailbox.worker, workers, offer.descriptors))
        except OSError as error:
            refusal = self._refusal(error)
        self._mailbox.send(workers[0], group, Message(ANSWER, refusal))
        return _next(box, workers).text

    def _refusal(self, error: OSError) -> str:
        return f"the system gives worker {self._mailbox.worker} no more memory or descriptors for it ({error})"


def _next(box: Box, workers: Sequence[int]) -> Message:
    """Returns what comes next; the worker's watchdog bounds the waiting."""
    message = box.get()
    if message.kind == ENDED:
        raise has_ended(int(message.text), workers)
    return message


def _mesh_of(ends: LinkEnds) -> HostMesh:
    try:
        return HostMesh(ends)
    except OSError:
        for descriptor in ends.sockets:
            os.close(descriptor)
        raise


def _texts(workers: Sequence[int]) -> str:
    return ", ".join(map(str, workers))
