"""PyTorch's FSDP over gloo on CPUs, under torchrun: `... torch_fsdp WIDTH LAYERS STEPS`; a stack of `sharded_models`.

Prints one line of JSON of the first worker.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

from benchmarks.workers.loop_spec import say
from benchmarks.workers.torch_loop import join, leave

SAMPLES = 16


def main() -> None:
    """Parses the command line, trains and prints."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    width, layers, steps = map(int, sys.argv[1:])
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    join(workers, rank, 600, None)
    mesh = init_device_mesh("cpu", (workers,))

    def built(width: int, layers: int) -> torch.nn.Module:
        def block() -> torch.nn.Module:
            return torch.nn.Sequential(torch.nn.Linear(width, width, bias=False), torch.nn.GELU())

        # As its guide says: each block by itself, as soon as it is there.
        blocks = [fully_shard(block(), mesh=mesh) for _ in range(layers)]
        return fully_shard(torch.nn.Sequential(*blocks, torch.nn.Linear(width, 3)), mesh=mesh)

    def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, width: int, steps: int) -> float:
        x, y = torch.randn(SAMPLES // workers, width), torch.randint(3, (SAMPLES // workers,))
        for _ in range(steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return float(loss)

    def trained(width: int, layers: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = built(width, layers)
        return model, torch.optim.Adam(model.parameters(), 1e-5)

    # What is taken once, whatever the model, as in `sharded_fit`.
    train(*trained(8, 1), 8, 2)
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    model, optimizer = trained(width, layers)
    building = _status("VmHWM") - before
    train(model, optimizer, width, 2)
    Path("/proc/self/clear_refs").write_text("5")
    begun = time.perf_counter()
    loss = train(model, optimizer, width, steps)
    seconds = (time.perf_counter() - begun) / steps
    own = [parameter.to_local() for parameter in model.parameters()]
    state = [each.to_local() for one in optimizer.state.values() for each in one.values() if hasattr(each, "to_local")]
    if rank == 0:
        say(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            stored=sum(each.numel() * each.element_size() for each in own),
            state=sum(each.numel() * each.element_size() for each in state),
            building=building,
            peak=_status("VmHWM") - before,
            seconds=seconds,
            loss=loss,
        )
    leave()


def _status(name: str) -> int:
    """Bytes of memory: resident now (VmRSS), or the most since `clear_refs` (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
