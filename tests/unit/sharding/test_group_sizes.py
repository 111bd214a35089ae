from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.launch.worker_options import WorkerOptions
from tfdist.sharding import Mesh, Sharding


@pytest.mark.parametrize(("tensor", "workers"), [(1, 1), (1, 3), (2, 2), (2, 6), (3, 3)])
@pytest.mark.parametrize("option", ["tensor", "context"])
def test_workers_that_fill_groups(option: str, tensor: int, workers: int) -> None:
    assert WorkerOptions(**{option: tensor}).sharding(["h1"] * workers) is None


@pytest.mark.parametrize(
    ("options", "workers", "message"),
    [
        ({"tensor": 2}, 1, "that it divides. Received: 1 worker. Start as many: --nproc 2, or --workers"),
        ({"tensor": 2}, 3, "Received: 3 workers. Start as many: --nproc 4"),
        ({"tensor": 3}, 2, "--tensor 3 makes groups of 3 workers, which share each weight"),
        ({"context": 3}, 4, "--context 3 makes groups of 3 workers, which share each sequence.* --nproc 6"),
    ],
)
def test_workers_that_do_not(options: dict[str, Any], workers: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WorkerOptions(**options).sharding(["h1"] * workers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tensor": 0}, "--tensor expects a number of workers of 1 or more. Received: 0"),
        ({"tensor": 2, "logical_devices": 2}, "one device each: --nproc N .* Received: --tensor 2 with --logical-dev"),
        ({"context": -1}, "--context expects a number of workers of 1 or more. Received: -1"),
        ({"context": 2, "logical_devices": 2}, "--context cuts sequences between workers with one device each"),
        ({"context": 2, "tensor": 2}, "Expected one of them. Received: --tensor 2 and --context 2. .* --shard zero3"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WorkerOptions(**options)


def test_what_does() -> None:
    options = WorkerOptions(tensor=2, shard="zero2", shard_embeddings=9, offload="optimizer")
    assert options.sharding(["h1"] * 4) == Sharding("zero2", Mesh.of(shard=4))


def test_one_is_as_without_it() -> None:
    assert WorkerOptions(tensor=1, logical_devices=2).logical_devices == 2
