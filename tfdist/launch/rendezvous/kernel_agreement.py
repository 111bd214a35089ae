"""Kernel agreement: the launchers of one job give their workers the same kernels."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping
from typing import Any, cast

from tfdist.errors import FormingError
from tfdist.launch.worker.kernel_choice import NAMES, VARIABLE, KernelChoice, KernelName


def agreed_kernels(mine: KernelChoice, terms: Mapping[str, Any]) -> KernelChoice:
    """The kernels of this host's workers, which are those of the chief's host.

    Every replica updates its own copy of the weights, so that kernels that round otherwise would let the copies drift
    apart where an update multiplies matrices. Hosts with other processors therefore do as the chief's does. What the
    user's environment says on one host alone is refused.

    Args:
        mine: What this host would choose by itself.
        terms: What came from the chief's launcher; its kernels are under `kernels`.

    Raises:
        FormingError: The environment here contradicts them, or the chief's launcher sent something else.
    """
    theirs: Any = terms.get("kernels")
    if theirs is not None and not (isinstance(theirs, str) and theirs in NAMES):
        raise FormingError(
            f"Expected the kernels of the chief's host: {', '.join(NAMES)} or nothing. Received: {theirs!r:.100}. "
            "Install the same version of tfdist on every host."
        )
    if mine.kernels is None or theirs in (None, mine.kernels):
        return mine
    if mine.is_users:
        raise FormingError(
            "The launchers of this job do not agree on the kernels by which workers compute on the CPU:\n"
            f"  {NAMES[mine.kernels]} on {socket.gethostname()}, as {mine.reason}\n"
            f"  {NAMES[theirs]} on the chief's host\n"
            f"Expected the same on every host. Set {VARIABLE} on all of them or on none, or give all of them the same "
            "--kernels."
        )
    chiefs = cast(KernelName, theirs)
    return dataclasses.replace(mine, kernels=chiefs, setting=chiefs, reason="the chief's host computes by them")
