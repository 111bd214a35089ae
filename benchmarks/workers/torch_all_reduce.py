"""gloo's all-reduce alone: `... torch_all_reduce SPEC`, see `AllReduceSpec`. The first worker speaks for the job."""

from __future__ import annotations

import sys

from benchmarks.workers.all_reduce_spec import AllReduceSpec, run_rounds, timed
from benchmarks.workers.torch_loop import join, leave


def main() -> None:
    """Sums as the specification says."""
    spec = AllReduceSpec.parse(sys.argv[1])
    import torch

    torch.set_num_threads(1)
    join(spec.workers, spec.index, spec.seconds, spec.folder)

    def reduce(value: torch.Tensor) -> torch.Tensor:
        torch.distributed.all_reduce(value)
        return value

    def is_all(total: torch.Tensor, number: float) -> bool:
        return bool((total == number).all())

    def time_sums(sizes: dict[str, int]) -> dict[str, float]:
        medians = []
        for size, times in sizes.items():
            value = torch.empty(int(size) // 4)
            medians.append(timed(lambda value=value: value.fill_(1.0), reduce, times, spec.workers, is_all))
        slowest = torch.tensor(medians, dtype=torch.float64)
        torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
        return dict(zip(sizes, slowest.tolist(), strict=True))

    run_rounds(spec, spec.index == 0, time_sums)
    leave()


if __name__ == "__main__":
    main()
