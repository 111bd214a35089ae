"""Every error that a user of tfdist can meet, each with the exit code of `tfdist`.

An error's text says what is wrong, what was expected, what was received and what to do next. The command line prints
the text alone; the traceback appears with `--verbose`.

Exit codes: 2 usage or config, 3 the cluster could not form, 4 a worker failed, 5 data, 130 interrupted, 143 terminated.
"""

from __future__ import annotations


class TfdistError(Exception):
    """Base of every error that tfdist raises on purpose.

    Attributes:
        exit_code: What `tfdist` exits with when this error ends it.
    """

    exit_code = 4


class UsageError(TfdistError):
    """The command line, the environment or an argument of the Python API cannot be used as given."""

    exit_code = 2


class ConfigError(UsageError):
    """A config has an unknown key, a wrong type or an impossible value, or cannot be read."""


class ClusterError(UsageError):
    """A worker list, a TF_CONFIG or a scheduler's environment does not describe a cluster."""


class PortTakenError(UsageError):
    """A port that this machine's worker or its metrics need belongs to another process or to another tfdist job."""


class RunDirError(UsageError):
    """The run directory cannot be used: it holds another run, or cannot be written."""


class UnsupportedError(UsageError):
    """A combination of features that would train wrong, or that cannot work, under the chosen strategy."""


class FormingError(TfdistError):
    """The cluster did not form within the start timeout; the text names the workers that did not come."""

    exit_code = 3


class WorkerFailedError(TfdistError):
    """A worker raised, was killed by a signal or ended while the others still needed it."""

    exit_code = 4


class StoreError(TfdistError):
    """A store of data or checkpoints does not answer, or is overloaded: the same may work a while later."""

    exit_code = 4


class DeviceMemoryError(TfdistError):
    """A device has too little memory for what a step needs; not the machine, whose kernel kills without a word."""

    exit_code = 4


class DataError(TfdistError):
    """The data cannot be read, is empty, or does not fit the model."""

    exit_code = 5
