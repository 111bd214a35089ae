"""Handover of the config from a launcher to its workers: a `RunConfig` in a file in memory that the workers inherit.

The config file is read once a launcher, when the launcher begins, and never again: what is edited afterwards is for the
next run.

- `tfdist train` and `tfdist verify` read the file in the launcher's process: `--set` is applied, paths are made
  absolute from the file's place, and everything is checked. `JobSpec.for_config` then settles what the command line and
  the config both may say: the name, the seed and the devices. Workers are told the outcome in their `Assignment`.
- Every worker that this launcher starts takes the config from here, after a restart too.
- Hosts need not share a disk: each launcher reads the config file of its own host, to which relative paths belong. The
  chief's launcher sends along what must be the same everywhere, which is all but paths, devices and the name, and a
  launcher with something else refuses to start (`rendezvous/config_agreement.py`). One launcher a task, as under Slurm
  and Open MPI, is no other case.
- The chief writes the config into the run directory, as `config.yaml`, once it is certain that the run begins or
  resumes with it. No process of the job reads that file.

A file in memory has no limit of size, as a variable of the environment has (128 KiB on Linux); it is there before the
worker's first line of Python; and nobody can edit it. It is pickled: both ends are one installation of tfdist, and no
other process can write to it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfdist.errors import UsageError

if TYPE_CHECKING:
    from tfdist.config import RunConfig


@contextlib.contextmanager
def handed_over(config: RunConfig | None) -> Iterator[int | None]:
    """While entered, holds the config for workers to inherit; yields its descriptor, None without a config."""
    if config is None:
        yield None
        return
    with open(os.memfd_create("tfdist-config"), "wb") as file:
        pickle.dump(config, file)
        file.flush()
        yield file.fileno()


def receive_config(fd: int | None) -> RunConfig:
    """The config that this worker's launcher has handed over.

    Args:
        fd: The inherited descriptor (`Assignment.config_fd`), which is closed.

    Raises:
        UsageError: There is none.
    """
    if fd is None:
        raise UsageError("The launcher of this worker has handed over no config. Start it with `tfdist train`.")
    try:
        # All workers inherit one open file: its position is not this worker's alone.
        content = os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
    config: RunConfig = pickle.loads(content)
    return config
