"""The trainer of Ray Train whose workers train with tfdist."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from tfdist.errors import UsageError
from tfdist.launch.worker.worker_variables import allocator_settings
from tfdist.ray.train.backend import TfdistBackendConfig
from tfdist.ray.train.train_options import worker_options


class Trainer(DataParallelTrainer):
    """Trains a function on the workers of Ray Train, with the numbers of one device.

    The function runs in every worker, under tfdist's strategy, as a script does under `tfdist train`: it makes a model,
    calls `fit` with data of global batches, and gives it `tfdist.ray.callbacks()`. A `fit` is saved in Ray's storage,
    which all nodes share, and resumes at its next step when Ray restarts the workers (`FailureConfig`).

    Args:
        train_loop_per_worker: The function; takes `train_loop_config`, or nothing.
        train_loop_config: Its argument.
        scaling_config: How many workers, and what each has: Ray's `ScalingConfig`.
        run_config: The run's name, storage and restarts: Ray's `RunConfig`.
        seed: The run's seed, the same on every worker and in every restart; None to draw one.
        **options: Of `tfdist train`, as keywords: `batch_norm`, `check`, `communication`, `compression`, `jit`,
            `kernels`, `offload`, `shard`, `shard_over`, `shard_embeddings`, `tensor`, `context`, `first_step_timeout`,
            `step_timeout`, `strict`. Or of Ray's `DataParallelTrainer`: `datasets`, `dataset_config`,
            `validation_config`.

    Raises:
        UsageError: There is no such option, or it does not take a value; or Ray is not installed.

    Example:
        >>> def train(config):
        ...     model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
        ...     model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        ...     model.fit(images, labels, batch_size=128, epochs=config["epochs"], callbacks=tfdist.ray.callbacks())
        >>> result = tfdist.ray.Trainer(
        ...     train, train_loop_config={"epochs": 3}, scaling_config=ray.train.ScalingConfig(num_workers=2)
        ... ).fit()
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        scaling_config: Any = None,
        run_config: Any = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        of_ray = {name: options.pop(name) for name in _OF_RAY & options.keys()}
        name = getattr(train_loop_per_worker, "__name__", "train")
        scaling = scaling_config or ray.train.ScalingConfig()
        if scaling.num_workers == 0:
            raise UsageError(
                "tfdist.ray.Trainer trains in workers of Ray. Expected ScalingConfig(num_workers=1) or more. Received: "
                "num_workers=0, Ray's local mode"
            )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=TfdistBackendConfig(worker_options(options), seed, name),
            scaling_config=scaling,
            run_config=_with_environment(run_config or ray.train.RunConfig(), on_gpus=bool(scaling.use_gpu)),
            **of_ray,
        )


_OF_RAY = {"datasets", "dataset_config", "validation_config"}


def _with_environment(run_config: Any, *, on_gpus: bool) -> Any:
    """The run's config with what the workers' environment must have when they start, where the user sets nothing."""
    runtime: dict[str, Any] = dict(run_config.worker_runtime_env or {})
    users: Mapping[str, str] = runtime.get("env_vars", {})
    allocator = {} if on_gpus else allocator_settings(users)
    # Python's hash() orders sets: where that decides what is built first, workers must agree.
    runtime["env_vars"] = {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "1", **allocator, **users}
    return dataclasses.replace(run_config, worker_runtime_env=runtime)
