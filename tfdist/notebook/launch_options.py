"""Options of `tfdist train` that `notebook_launcher` takes, as keyword arguments."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from typing import Any

from tfdist.cluster.discover import discover
from tfdist.errors import UsageError
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.worker_options import OF_COMPUTATION
from tfdist.text import safe_repr

_OF_JOBS = ("log_prefix", "metrics_address", "metrics_port", "network", "overwrite", "run_dir", "seed", "show")
_OF_WORKERS = ("devices", "logical_devices", "max_restarts", "memory_limit", "quiet", "resume", "share_gpu", "verbose")
_SECONDS = ("first_step_timeout", "step_timeout", "grace")

NAMES = sorted((*_OF_JOBS, *_OF_WORKERS, *_SECONDS, *OF_COMPUTATION))
"""Those that say something about a job of one machine that runs a function."""

_TYPES = {field.name: str(field.type) for field in dataclasses.fields(JobSpec)}
"""Name of an option -> its annotation, such as `int | None`."""
_FROM_ZERO = ("max_restarts", "seed")
"""Of the options that are whole numbers; the others are at least 1."""
_MODULE = "tfdist.notebook.call_in_worker"


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options in the types that `JobSpec` has, which JSON keeps; `devices` as a list.

    Raises:
        UsageError: An option has an unknown name, or a value of another type.
    """
    checked = dict(options)
    for name, value in options.items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, ("nproc", *NAMES), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(NAMES)}."
            raise UsageError(f"notebook_launcher has no option {name!r}.{hint}")
        kind, least = _TYPES[name], int(name not in _FROM_ZERO)
        if value is None:
            del checked[name]
        elif kind in ("int", "int | None") and (not _is_whole(value) or value < least):
            raise UsageError(f"{name} expected a whole number of at least {least}. Received: {safe_repr(value)}")
        elif kind == "bool" and not isinstance(value, bool):
            raise UsageError(f"{name} expected True or False. Received: {safe_repr(value)}")
        elif kind == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"{name} expected a number of seconds. Received: {safe_repr(value)}")
        elif name == "devices":
            checked[name] = _device_list(value)
        elif name == "run_dir":
            checked[name] = _path(value)
    return checked


def job_of(folder: str, name: str, nproc: int | None, options: Mapping[str, Any]) -> JobSpec:
    """The job whose workers call the function that lies in `folder`.

    Args:
        name: What the run is called.
        nproc: Workers on this machine; None: the launcher chooses.
        options: As `checked_options` returns them.

    Raises:
        UsageError: An option has an impossible value.
    """
    options = dict(options)
    if "devices" in options:
        options["devices"] = tuple(options["devices"])
    return JobSpec(discover(nproc=nproc, environ={}), "module", _MODULE, args=(folder,), name=name, **options)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _device_list(value: Any) -> list[int]:
    if not isinstance(value, list | tuple) or not value or not all(_is_whole(device) for device in value):
        raise UsageError(f"devices expected a list of indices of GPUs, such as [0, 1]. Received: {safe_repr(value)}")
    return list(value)


def _path(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"run_dir expected a path. Received: {safe_repr(value)}")
    return os.fspath(value)
