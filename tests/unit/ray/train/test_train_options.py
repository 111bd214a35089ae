from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.ray.train.train_options import NAMES, worker_options


def test_options_of_the_workers() -> None:
    options = worker_options({"kernels": "onednn", "offload": "optimizer:disk", "step_timeout": 60.0})
    assert (options.kernels, options.offload, options.step_timeout) == ("onednn", "optimizer:disk", 60.0)
    # Ray starts the workers again after a failure: they go on with what they find.
    assert options.resume == "auto"


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_one_of_a_worker(name: str) -> None:
    assert hasattr(worker_options({}), name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kernel": "onednn"}, "Did you mean 'kernels'"),
        ({"max_restarts": 3}, "are Ray's: scaling_config and run_config"),
        ({"kernels": "fast"}, "--kernels must be one of"),
    ],
)
def test_options_that_are_none(given: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        worker_options(given)
