"""Known pairs: every connection that this doctor found itself or was told of, and the telling of its own to others."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.doctor.mesh.doctor_hello import DoctorHello
from tfdist.doctor.mesh.pair import Pair
from tfdist.net.line_socket import LineSocket, Message

_DONE: Message = {"done": True}


class KnownPairs:
    """The knowledge of one doctor, which tells each other doctor each of its own pairs once.

    Args:
        hello: This doctor's.
        workers: How many the cluster has.

    Attributes:
        pairs: The connections that are known of.
        finished: The workers whose doctors know all of theirs.
        other_lists: Host -> worker list, of doctors that were given another.
    """

    def __init__(self, hello: DoctorHello, workers: int) -> None:
        self._hello = hello
        self._workers = workers
        self.pairs: dict[tuple[int, int], Pair] = {}
        self.finished: set[int] = set()
        self.other_lists: dict[str, str] = {}
        self._told: dict[str, set[tuple[int, int] | str]] = {}

    def is_settled(self, index: int) -> bool:
        """Returns whether this doctor's connection with a worker is known."""
        return (self._hello.local[0], index) in self.pairs

    def is_ours(self, theirs: DoctorHello) -> bool:
        """Returns whether another doctor was given the same worker list."""
        return theirs.cluster == self._hello.cluster

    def hear(self, theirs: DoctorHello | None, message: Message) -> None:
        """Takes in what another doctor tells.

        Raises:
            LineError: It is nothing that a doctor tells.
        """
        if theirs is None or not self.is_ours(theirs):
            return
        if "pair" in message:
            pair = Pair.from_message(message)
            if set(pair.sources) <= set(theirs.local) and 0 <= pair.target < self._workers:
                self.pairs.setdefault(pair.key, pair)
        elif message == _DONE:
            self.finished.update(theirs.local)

    def forget(self, theirs: DoctorHello | None) -> None:
        """A doctor has left: one that comes back is told everything."""
        if theirs is not None:
            self._told.pop(theirs.sender, None)

    def share(self, lines: Mapping[str, LineSocket], *, complete: bool) -> None:
        """Tells every doctor on a line what it does not know yet of this one's connections.

        Args:
            lines: One to each doctor, by what tells it from the others.
            complete: Whether those are all of this one's connections.
        """
        own = {pair.key: pair for pair in self.pairs.values() if pair.sources == self._hello.local}
        for doctor, line in lines.items():
            told = self._told.setdefault(doctor, set())
            for key in own.keys() - told:
                line.send({"pair": own[key].to_json()})
                told.add(key)
            if complete and "done" not in told:
                line.send(_DONE)
                told.add("done")
