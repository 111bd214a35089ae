"""Workers that begin with TensorFlow imported: in a fork of one process, which takes two seconds less of a processor.

Whatever a launcher starts and ends is still a process of its own, which hands all that it has over to the fork,
forwards signals, and ends as the fork does: `warm_start/`. A test of how processes start, end or are seen by the system
has its workers cold.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from tfdist.launch.worker.kernel_choice import choose_kernels, kernel_settings, this_processor

FOLDER = Path(__file__).parent / "warm_start"
_NVIDIA = Path("/dev/nvidiactl")


def warm(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment with which the workers of a launcher begin so; the same one on a machine with a GPU."""
    if _NVIDIA.exists():
        return dict(environ)
    path = os.pathsep.join(filter(None, [str(FOLDER), environ.get("PYTHONPATH")]))
    return {**environ, "PYTHONPATH": path, "TESTS_WARM_WORKERS": _server()}


@functools.cache
def _server() -> str:
    """Starts this process's server, which ends with it, and returns its address: a name that is no file's."""
    address = f"tfdist-warm-workers-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{address}")
        listener.listen(64)
        theirs, ours = os.pipe()
        # By these, which TensorFlow reads as it is imported, the workers of this machine compute.
        kernels = kernel_settings(choose_kernels("auto", os.environ, this_processor(), has_gpu=False).setting)
        environ = {**os.environ, "KERAS_BACKEND": "tensorflow", **kernels}
        server = subprocess.Popen([sys.executable, FOLDER / "server.py"], stdin=listener, stdout=theirs, env=environ,
                                  stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        os.close(theirs)
        _kept.extend([server, ours])
    return address


_kept: list[object] = []
"""The server, and the end of a pipe whose other end sees that this process has ended."""
