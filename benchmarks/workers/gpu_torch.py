"""PyTorch's DistributedDataParallel on one model, over NCCL on GPUs and gloo without: `... gpu_torch SPEC`.

As Keras does, it trains by Adam from batches in the host's memory, in float32 whose products may be in TensorFloat-32.
The workers meet at a file. Prints one line of JSON with the global batches a second.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import model_sizes
from benchmarks.gpu.gpu_models import GpuModel, TrainingSpec, gpu_model
from benchmarks.workers.loop_spec import WARM_STEPS, process_start, say


def main() -> None:
    """Trains as the specification says, and prints."""
    spec = TrainingSpec.parse(sys.argv[1])
    model_of = gpu_model(spec.model, spec.scale)
    import torch
    from torch import distributed

    gpus = torch.cuda.device_count()
    device = torch.device("cuda", spec.index % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    distributed.init_process_group(
        "nccl" if gpus else "gloo",
        init_method=f"file://{Path(spec.folder).absolute() / 'meeting'}",
        rank=spec.index,
        world_size=spec.workers,
        timeout=datetime.timedelta(seconds=spec.seconds),
    )
    step, parameters = _step(spec, model_of, device)
    step(0)
    _finish(device)
    first = time.time()
    for number in range(1, WARM_STEPS + model_of.steps):
        step(number)
    _finish(device)
    rates = [_rate(step, model_of.steps, device) for _ in range(spec.windows)]
    say(rates=rates, first_step=first, process=process_start(), parameters=parameters, torch=torch.__version__)
    distributed.barrier()
    # An interpreter that ends as usual while its group is there is aborted now and then.
    os._exit(0)


def _rate(step: Callable[[int], None], steps: int, device: object) -> float:
    begun = time.perf_counter()
    for number in range(steps):
        step(number)
    _finish(device)
    return steps / (time.perf_counter() - begun)


def _finish(device: object) -> None:
    """Waits until the device has done all that it was given."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def _step(spec: TrainingSpec, model_of: GpuModel, device: object) -> tuple[Callable[[int], None], int]:
    """One step, given its number; and the number of parameters."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from benchmarks.workers import torch_models

    network = torch_models.build_of(model_of.size).to(device)
    model = DistributedDataParallel(network)
    called = torch.compile(model) if spec.compiles else model
    optimizer, loss_of = torch.optim.Adam(model.parameters(), eps=1e-7), torch.nn.CrossEntropyLoss()
    share = model_of.batch // spec.workers
    x, y = torch_models.data_of(model_of.size, model_sizes.BATCHES * share)
    if torch.device(device).type == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    batches = list(zip(x.split(share), y.split(share), strict=True))

    def step(number: int) -> None:
        x, y = (part.to(device, non_blocking=True) for part in batches[number % len(batches)])
        optimizer.zero_grad()
        loss_of(called(x), y).backward()
        optimizer.step()

    return step, sum(parameter.numel() for parameter in network.parameters())


if __name__ == "__main__":
    main()
