"""Version of NCCL that processes of this environment load, and what it can do by that."""

from __future__ import annotations

import ctypes
import importlib.metadata
import re

_SHARES_GPUS = (2, 30)
"""The first version whose NCCL_MULTI_RANK_GPU_ENABLE lets several processes exchange on one GPU."""


def nccl_version() -> str | None:
    """The version of the NCCL library that a process here loads; None where unknown."""
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name.startswith("nvidia-nccl-"):
            return f"{distribution.version} ({name})"
    try:
        number = ctypes.c_int()
        if ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number)):
            return None
    except (OSError, AttributeError):
        # Not installed as a library of its own: TensorFlow may have it built in, without a version.
        return None
    return f"{dotted(number.value)} (libnccl.so.2)"


def dotted(number: int) -> str:
    """NCCL's version number in dotted form: 22703 is 2.27.3; before 2.9 it was 2804 for 2.8.4."""
    major, rest = divmod(number, 10_000 if number >= 10_000 else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def lets_workers_share_a_gpu(version: str | None) -> bool:
    """Returns whether workers that share a GPU can exchange over NCCL of a version, as `nccl_version` returns it."""
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= _SHARES_GPUS
