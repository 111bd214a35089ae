"""Checks whether the hellos of two launchers that met agree: one cluster, the same versions, every worker once."""

from __future__ import annotations

from collections.abc import Sequence

from tfdist.net.hello import Hello, difference, have_same_workers


def disagreement(mine: Hello, theirs: Hello, reached: int | None = None) -> str | None:
    """Returns why two launchers cannot run one job, or None when they can.

    Args:
        mine: This launcher's hello.
        theirs: The other's.
        reached: The worker whose address this launcher dialled to meet the other; None when the other dialled.
    """
    them = f"the launcher on {theirs.host}"
    if mine.sender == theirs.sender:
        return f"the address of worker {reached} leads back to this machine, whose worker(s) are {_list(mine.local)}"
    if mine.protocol != theirs.protocol:
        return f"{them} speaks another version of tfdist: {theirs.versions} there, {mine.versions} here"
    if mine.cluster != theirs.cluster:
        has_same = have_same_workers(mine.cluster, theirs.cluster)
        what = "the workers in another order" if has_same else "another worker list"
        return (
            f"{them} was given {what}; the list must be the same, in the same order, on every host\n"
            f"{difference(mine.cluster, theirs.cluster)}"
        )
    differing = [f"{name} {here} here and {there} there" for name, here, there in mine.version_differences(theirs)]
    if differing:
        return f"{them} has other versions: {'; '.join(differing)}. Install the same on every host"
    twice = sorted(set(mine.local) & set(theirs.local))
    if twice:
        return f"worker(s) {_list(twice)} are started twice: here and by {them}. Give each launcher its own --index"
    if reached is not None and reached not in theirs.local:
        return (
            f"the address of worker {reached} leads to {them}, which starts worker(s) {_list(theirs.local)}. "
            "Check what that name resolves to here, and --index there"
        )
    return None


def _list(indices: Sequence[int]) -> str:
    return ", ".join(map(str, indices))
