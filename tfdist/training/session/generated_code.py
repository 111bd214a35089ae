"""Sets the folder in which TensorFlow's AutoGraph keeps the Python files that it generates in this process."""

from __future__ import annotations

import atexit
import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from tensorflow.python.autograph.pyct import loader

from tfdist.launch.worker.config_handover import generated_code_dir


class _TempfileIn:
    """The module `tempfile`, whose named files lie in a folder; for AutoGraph alone.

    Args:
        folder: Where; the system's folder for temporary files instead, once this one is gone.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def NamedTemporaryFile(self, *args: Any, **options: Any) -> Any:
        with contextlib.suppress(FileNotFoundError):
            return tempfile.NamedTemporaryFile(*args, **{"dir": self._folder, **options})
        return tempfile.NamedTemporaryFile(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(tempfile, name)


def keep_generated_code_in(folder: str | None) -> None:
    """Has AutoGraph write its files into `folder`; temporary files of all others stay where they are.

    Args:
        folder: It exists; None leaves TensorFlow as it is.
    """
    # TensorFlow has no setting for it. Where another version of it makes its files otherwise, they stay where it does.
    if folder is not None and getattr(loader, "tempfile", None) is not None:
        loader.tempfile = _TempfileIn(folder)


def keep_generated_code_apart() -> None:
    """Keeps them in a folder that goes with this process, which no launcher has given one, or with the next start."""
    opened = contextlib.ExitStack()
    opened.enter_context(generated_code_apart())
    atexit.register(opened.close)


@contextlib.contextmanager
def generated_code_apart() -> Iterator[None]:
    """Keeps them in a folder that goes at the end of the block, in a process that no launcher has given one.

    Those of a process that ends without its exit handlers, or is killed, would stay.
    """
    with generated_code_dir() as folder:
        keep_generated_code_in(folder)
        yield
