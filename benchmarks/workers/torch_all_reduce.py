"""gloo's all-reduce alone: `... torch_all_reduce SPEC`, see `AllReduceSpec`. Each worker prints one line of JSON."""

from __future__ import annotations

import sys

from benchmarks.workers.all_reduce_spec import AllReduceSpec, timed
from benchmarks.workers.loop_spec import say
from benchmarks.workers.torch_loop import join, leave


def main() -> None:
    """Sums as the specification says, and prints."""
    spec = AllReduceSpec.parse(sys.argv[1])
    import torch

    torch.set_num_threads(1)
    join(spec.workers, spec.index, spec.seconds, spec.folder)

    def reduce(value: torch.Tensor) -> torch.Tensor:
        torch.distributed.all_reduce(value)
        return value

    def is_all(total: torch.Tensor, number: float) -> bool:
        return bool((total == number).all())

    medians = {}
    for size, times in spec.sizes.items():
        value = torch.empty(int(size) // 4)
        medians[size] = timed(lambda value=value: value.fill_(1.0), reduce, times, spec.workers, is_all)
    say(seconds=medians)
    leave()


if __name__ == "__main__":
    main()
