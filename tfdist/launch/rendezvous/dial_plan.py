"""Dial plan: whom each launcher of a job dials, so that all of them meet and no launcher's work grows with the job's.

The chief's launcher dials all others. The others dial the chief's, and the nearest workers on both sides in the ring of
the list: those are the ones that TensorFlow's collectives connect their workers to, and a firewall between two hosts
shows before the workers start. In a small job that are all.
"""

from __future__ import annotations

from tfdist.cluster.membership import Membership

CHIEF = 0
NEIGHBOURS = 4
"""Of each worker, on each side; up to nine workers every launcher dials every other one."""


def whom_to_dial(membership: Membership) -> tuple[int, ...]:
    """The workers at whose addresses this launcher looks for their launchers, ascending.

    Args:
        membership: Which workers are started here.
    """
    if membership.has_chief:
        return membership.remote
    size = membership.num_workers
    near = {(index + step) % size for index in membership.local for step in range(-NEIGHBOURS, NEIGHBOURS + 1)}
    return tuple(sorted((near | {CHIEF}) - set(membership.local)))
