"""CRC-32C by the processor's own instruction, through the function that TensorFlow's library carries.

The function belongs to Abseil and is not part of TensorFlow's interface. Where the library, the function or the machine
is not the known one there is none, and `crc32c` computes with numpy. The library is not loaded for its sake: that takes
a third of a second and writes to the terminal, so a process without TensorFlow has numpy alone.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

Extend = Callable[[int, int, bytes | int], int]
"""From a CRC, a number of bytes and the bytes (or their address) to the CRC with them."""

_NAME = (
    "_ZN4absl12lts_2025081412crc_internal20ExtendCrc32cInternalENS0_8crc32c_tE"
    "St17basic_string_viewIcSt11char_traitsIcEE"
)
_VERSION = "2.21."
_MACHINES = ("x86_64", "aarch64")
"""Where a string view travels as its length and its address in two registers."""

_CHECK_VALUE = (b"123456789", 0xE3069283)


def hardware_extend() -> Extend | None:
    """The function, or None where it is not the known one, or TensorFlow is not in use."""
    return _known_function() if "tensorflow" in sys.modules else None


@cache
def _known_function() -> Extend | None:
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        return None
    try:
        if not importlib.metadata.version("tensorflow").startswith(_VERSION):
            return None
        folder = Path(str(sys.modules["tensorflow"].__file__)).parent
        library = ctypes.CDLL(str(folder / "libtensorflow_framework.so.2"), mode=os.RTLD_NOLOAD)
        function = getattr(library, _NAME)
    except (importlib.metadata.PackageNotFoundError, OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    function.argtypes = [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p]
    data, crc = _CHECK_VALUE
    return function if function(0, len(data), data) == crc else None
