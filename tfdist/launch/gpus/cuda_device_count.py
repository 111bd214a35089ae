"""A program that prints how many GPUs CUDA's driver has for a process, as `CUDA_VISIBLE_DEVICES` and MIG let it.

TensorFlow counts them in the same way. In a process of its own, as a driver may hang, and a launcher is to hold no GPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

_DRIVER = "libcuda.so.1"
_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE: the driver works, and there is no GPU that the process may use."""


def count(load: Callable[[str], Any] = ctypes.CDLL) -> int:
    """The number of GPUs.

    Args:
        load: Loads a library by its name.

    Raises:
        OSError: There is no driver, or it does not tell.
    """
    driver = load(_DRIVER)
    code = driver.cuInit(0)
    if code == _NO_DEVICE:
        return 0
    found = ctypes.c_int()
    code = code or driver.cuDeviceGetCount(ctypes.byref(found))
    if code:
        raise OSError(f"CUDA's driver answers with error {code}")
    return found.value


def main() -> None:
    """Prints it; exits with 1, and says why, where it cannot be told."""
    try:
        print(count())
    except (OSError, AttributeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
