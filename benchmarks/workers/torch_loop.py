"""PyTorch's DistributedDataParallel over gloo, or one process without it: `... torch_loop SPEC`, also under torchrun.

Torchrun's variables decide which worker this is where they are set; else the specification does, and the workers meet
at a file. Prints one line of JSON with the steps a second.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.workers.loop_spec import WARM_STEPS, LoopSpec, Moments, say


def main() -> None:
    """Trains as the specification says, and prints."""
    spec, launched = LoopSpec.parse(sys.argv[1]), "TORCHELASTIC_RUN_ID" in os.environ
    if launched:
        spec = dataclasses.replace(spec, index=int(os.environ["RANK"]))
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[spec.index % len(cores)]})
    moments = Moments()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(spec.index)
    moments.note("imported")
    if spec.workers > 1:
        join(spec.workers, spec.index, spec.seconds, None if launched else spec.folder)
    moments.note("met")
    step, parameters = _step(spec)
    moments.note("built")
    step(0)
    moments.note("stepped")
    step(1)
    moments.note("again")
    for number in range(2, WARM_STEPS):
        step(number)
    begun = time.perf_counter()
    for number in range(spec.steps):
        step(number)
    rate = spec.steps / (time.perf_counter() - begun)
    onednn = torch.backends.mkldnn.is_available()
    if spec.index == 0 or not launched:  # all that torchrun starts write to one output
        say(steps_per_second=rate, parameters=parameters, onednn=onednn, moments=moments.times)
    if spec.workers > 1:
        leave()


def leave() -> None:
    """Leaves the group when all workers have come here, and ends the process.

    At once: seen with PyTorch 2.13, an interpreter that ends as usual is aborted now and then, after all is done
    ("terminate called without an active exception").
    """
    import torch

    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os._exit(0)


def join(workers: int, index: int, seconds: float, folder: str | None) -> None:
    """Joins gloo's group, at a file in `folder`, or where torchrun's variables say."""
    import torch

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group(
        "gloo",
        init_method=None if folder is None else f"file://{Path(folder).absolute() / 'gloo'}",
        rank=index,
        world_size=workers,
        timeout=datetime.timedelta(seconds=seconds),
    )


def _step(spec: LoopSpec) -> tuple[Callable[[int], None], int]:
    """One step, given its number; and the number of parameters."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from benchmarks import model_sizes
    from benchmarks.workers import torch_models

    network = torch_models.build(spec.model)
    model = DistributedDataParallel(network) if spec.workers > 1 else network
    optimizer, loss_of = torch_models.optimizer(model), torch.nn.CrossEntropyLoss()
    x, y = torch_models.data(spec.model, model_sizes.BATCHES * spec.share)
    batches = list(zip(x.split(spec.share), y.split(spec.share), strict=True))

    def step(number: int) -> None:
        x, y = batches[number % len(batches)]
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return step, sum(parameter.numel() for parameter in network.parameters())


if __name__ == "__main__":
    main()
