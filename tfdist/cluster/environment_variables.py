"""The environment variables that affect a run, for reports."""

from __future__ import annotations

import os
from collections.abc import Mapping

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


def run_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of `environ` (default: this process's) that affect a run, by name; secrets as `HIDDEN`."""
    source = os.environ if environ is None else environ
    return {
        name: HIDDEN if any(word in name for word in _SECRET) else value
        for name, value in sorted(source.items())
        if name.startswith(_PREFIXES)
    }
