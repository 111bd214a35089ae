"""PyTorch's FSDP or tensor parallelism over gloo on CPUs, under torchrun: `... torch_sharded fsdp|tensor MODEL STEPS`.

MODEL is a stack or blocks of `sharded_names`. Prints one line of JSON of the first worker.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from benchmarks.workers.loop_spec import say
from benchmarks.workers.sharded_names import BLOCKS, STACKS, Blocks
from benchmarks.workers.torch_loop import join, leave

_STACK_SAMPLES = 16

Shard = Callable[[nn.Module], nn.Module]


def main() -> None:
    """Parses the command line, trains and prints."""
    way, name, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    # With `tensor` all workers have the same samples, and the same of what is not cut.
    torch.manual_seed(1)
    join(workers, rank, 600, None)
    mesh = init_device_mesh("cpu", (workers,))
    shard, sharing = (_fsdp(mesh), workers) if way == "fsdp" else (_tensor(mesh), 1)
    # What is taken once, whatever the model, as in `sharded_fit`.
    small = _blocks(BLOCKS["small-blocks"], shard) if name in BLOCKS else _stack(8, 1, shard)
    _train(small, _adam(small), "small-blocks" if name in BLOCKS else 8, sharing, 2)
    del small
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    model = _blocks(BLOCKS[name], shard) if name in BLOCKS else _stack(*STACKS[name], shard)
    optimizer = _adam(model)
    building = _status("VmHWM") - before
    data = name if name in BLOCKS else STACKS[name][0]
    _train(model, optimizer, data, sharing, 2)
    Path("/proc/self/clear_refs").write_text("5")
    begun = time.perf_counter()
    loss = _train(model, optimizer, data, sharing, steps)
    seconds = (time.perf_counter() - begun) / steps
    if rank == 0:
        say(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            stored=sum(map(_stored, model.parameters())),
            state=sum(_stored(each) for one in optimizer.state.values() for each in one.values()),
            building=building,
            peak=_status("VmHWM") - before,
            seconds=seconds,
            loss=loss,
        )
    leave()


def _fsdp(mesh: DeviceMesh) -> Shard:
    return lambda module: fully_shard(module, mesh=mesh)


def _tensor(mesh: DeviceMesh) -> Shard:
    plan = dict.fromkeys(("query", "key", "value", "wide"), ColwiseParallel())
    plan |= dict.fromkeys(("attended", "narrow"), RowwiseParallel())
    return lambda module: parallelize_module(module, mesh, plan) if isinstance(module, _Block) else module


class _Block(nn.Module):
    """The block of `sharded_models`, with the layers that the guide to tensor parallelism cuts."""

    def __init__(self, sizes: Blocks) -> None:
        super().__init__()
        width, self.depth = sizes.width, sizes.width // sizes.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.attended = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        # This worker's heads.
        projected = (each(y).unflatten(-1, (-1, self.depth)) for each in (self.query, self.key, self.value))
        q, k, v = (each.transpose(1, 2) for each in projected)
        heads = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.attended(heads.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class _Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


# Each block by itself, as soon as it is there, as the guides say.
def _stack(width: int, layers: int, shard: Shard) -> nn.Module:
    blocks = [shard(nn.Sequential(nn.Linear(width, width, bias=False), nn.GELU())) for _ in range(layers)]
    return shard(nn.Sequential(*blocks, nn.Linear(width, 3)))


def _blocks(sizes: Blocks, shard: Shard) -> nn.Module:
    blocks = [shard(_Block(sizes)) for _ in range(sizes.layers)]
    return shard(nn.Sequential(*blocks, nn.LayerNorm(sizes.width), _Mean(), nn.Linear(sizes.width, 3)))


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), 1e-5)


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, data: str | int, sharing: int, steps: int) -> float:
    """Trains so many steps with this worker's part of the samples: of blocks of that name, or so wide a stack."""
    shape = (_STACK_SAMPLES, data)
    if isinstance(data, str):
        shape = (BLOCKS[data].batch, BLOCKS[data].tokens, BLOCKS[data].width)
    samples = shape[0] // sharing
    x, y = torch.randn(samples, *shape[1:]), torch.randint(3, (samples,))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def _stored(tensor: torch.Tensor) -> int:
    """Bytes of it that this worker has."""
    own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(own.numel() * own.element_size())


def _status(name: str) -> int:
    """Bytes of memory: resident now (VmRSS), or the most since `clear_refs` (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
