"""Settings of glibc's malloc for workers that compute on the CPU.

As soon as a dataset feeds the devices of a strategy, TensorFlow makes glibc give freed memory back at once, and every
step then pays for getting its tensors' memory anew. One arena that keeps its memory spares that: a quarter to a half of
a step's time was seen, on models from 3 to 98 MB. On machines with GPUs, where that memory is not the CPU's and many
threads may decode data, malloc is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_SETTINGS = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
_NVIDIA = Path("/dev/nvidiactl")


def allocator_settings(environ: Mapping[str, str], nvidia: Path = _NVIDIA) -> dict[str, str]:
    """What to add to a worker's environment; nothing where the user has set malloc up, or there is a GPU.

    Args:
        environ: The environment that the worker would have.
        nvidia: The device file of NVIDIA's driver.
    """
    if nvidia.exists() or any(name.startswith("MALLOC_") for name in environ) or "LD_PRELOAD" in environ:
        return {}
    return dict(_SETTINGS)
