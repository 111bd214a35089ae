"""Handover of the config from a launcher to its workers, which inherit it as an open file without a name.

A launcher reads the config file once, when it starts. An edit of the file after that affects the next job only.

- `tfdist train` and `tfdist verify` load the config in the launcher: they apply `--set`, make paths absolute and check
  everything. `JobSpec.for_config` then combines what both the command line and the config may set: the name, the seed
  and the devices. Workers get the result in their `Assignment`.
- Each worker takes the config from here, in every attempt.
- Hosts need not share a disk. Each launcher loads the config file of its own host, to which relative paths refer. The
  chief's launcher sends the settings that must be the same everywhere, which are all but paths, devices and the name,
  and a launcher with other settings refuses to start (`job_terms.py`). The same holds under Slurm and
  Open MPI, where each task has a launcher.
- The chief writes the config into the run directory, as `config.yaml`, once the run begins or resumes with it. No
  worker reads that file.

Such a file has no size limit, unlike an environment variable (128 KiB on Linux), exists before the worker starts, and
cannot be edited. It is pickled, which is safe here: both ends run the same installation of tfdist, and no other process
can open it. (`os.memfd_create` would do, but many builds of Python lack it.)
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tfdist.errors import UsageError
from tfdist.rundir.atomic_files import write_error
from tfdist.rundir.temp_names import temporary_folder

if TYPE_CHECKING:
    from tfdist.config import RunConfig
    from tfdist.config.yaml_document import Document


class HandedConfig(NamedTuple):
    """The values that a worker is handed.

    Attributes:
        config: The config.
        document: The file that it was read from, with the line of each key; None where it has none.
    """

    config: RunConfig
    document: Document | None


@contextlib.contextmanager
def handed_over(config: RunConfig | None, document: Document | None = None) -> Iterator[int | None]:
    """While entered, holds the config for workers to inherit. Yields the file's descriptor, None without a config.

    Args:
        document: The file that it was read from, for errors.

    Raises:
        RunDirError: No directory for temporary files can be written.
    """
    if config is None:
        yield None
        return
    # Imported here: scripts have no config, and their launcher need not load it.
    import tempfile

    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            left = memoryview(pickle.dumps(HandedConfig(config, document)))
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            # Not gettempdir(): it raises where it finds no directory to write in.
            raise write_error(tempfile.tempdir or "/tmp", error, "TMPDIR") from error
        yield file.fileno()


def receive_config(fd: int | None) -> HandedConfig:
    """The config that this worker's launcher has handed over.

    Args:
        fd: The inherited descriptor (`Assignment.config_fd`); it is closed.

    Raises:
        UsageError: There is no descriptor.
    """
    if fd is None:
        raise UsageError("The launcher of this worker has handed over no config. Start it with `tfdist train`.")
    try:
        # All workers inherit the same open file, and so share its position.
        content = os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
    handed: HandedConfig = pickle.loads(content)
    return handed


@contextlib.contextmanager
def generated_code_dir() -> Iterator[str | None]:
    """While entered, there is a folder of its own; its path, or None where none can be made."""
    with contextlib.ExitStack() as folder:
        try:
            path = str(folder.enter_context(temporary_folder("autograph")))
        except OSError:
            # Without a place for temporary files, or with a full one, workers meet the same: TensorFlow says so there.
            path = None
        yield path
