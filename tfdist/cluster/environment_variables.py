"""Environment variables that affect a run, for reports, and those that one process passes to another host."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping

from tfdist.errors import UsageError

_PREFIXES = (
    "CUDA_VISIBLE_DEVICES",
    "DNNL_",
    "JOB_COMPLETION_INDEX",
    "KERAS_",
    "LD_PRELOAD",
    "MALLOC_",
    "NCCL_",
    "NVIDIA_VISIBLE_DEVICES",
    "OMPI_COMM_WORLD_",
    "OMP_NUM_THREADS",
    "ONEDNN_",
    "SLURM_JOB_ID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_STEP_",
    "TFDIST_",
    "TF_CONFIG",
    "TF_CPP_",
    "TF_CUDNN_",
    "TF_DATA_",
    "TF_DETERMINISTIC_OPS",
    "TF_DISABLE_",
    "TF_ENABLE_",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_",
    "TF_GRPC_",
    "TF_NUM_",
    "TF_ONEDNN_",
    "TF_SET_ONEDNN_",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
_SECRET = ("TOKEN", "SECRET", "PASSWORD")
HIDDEN = "(set, not shown)"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def run_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of `environ` (default: this process's) that affect a run, by name; secrets as `HIDDEN`."""
    source = os.environ if environ is None else environ
    return {
        name: HIDDEN if any(word in name for word in _SECRET) else value
        for name, value in sorted(source.items())
        if name.startswith(_PREFIXES)
    }


def chosen_variables(names: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Some variables of `environ` (default: this process's).

    Args:
        names: Their names, or several between commas, as `--env` has them.

    Raises:
        UsageError: A name is none, or there is no such variable.
    """
    source = os.environ if environ is None else environ
    chosen: dict[str, str] = {}
    for name in (name.strip() for several in names for name in several.split(",")):
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--env expected names of variables between commas, such as DATA_DIR,HF_HOME. Received: {name[:100]!r}."
                " Set a variable before the command: NAME=value tfdist launch --env NAME ..."
            )
        if name not in source:
            raise UsageError(
                f"--env names a variable that is not set here: {name}. Expected one of this environment. Set it before "
                f"the command ({name}=value tfdist launch ...), or leave it out."
            )
        chosen[name] = source[name]
    return chosen


def environment_with(variables: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`environ` (default: this process's) with more variables, for a child."""
    return {**(os.environ if environ is None else environ), **variables}


def ssh_server_address(environ: Mapping[str, str] | None = None) -> str | None:
    """The address of this host at which its ssh client reached it; None outside ssh."""
    said = (os.environ if environ is None else environ).get("SSH_CONNECTION", "").split()
    try:
        # Client's address and port, server's address and port; a link-local one has its zone.
        return str(ipaddress.ip_address(said[2].partition("%")[0])) if len(said) == 4 else None
    except ValueError:
        return None
