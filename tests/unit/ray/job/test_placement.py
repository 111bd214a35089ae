from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.ray.job.placement import Demand, resources_text, shortage


@pytest.mark.parametrize(
    ("demand", "bundle", "text"),
    [
        (Demand(1), {"CPU": 1}, "1 worker with 1 CPU each, 1 CPU in all"),
        (Demand(4, 2, 1), {"CPU": 2, "GPU": 1}, "4 workers with 2 CPUs and 1 GPU each, 8 CPUs and 4 GPUs in all"),
        (
            Demand(2, strategy="strict-spread"),
            {"CPU": 1},
            "2 workers with 1 CPU each, 2 CPUs in all, each on a node of its own",
        ),
        (Demand(2, strategy="strict-pack"), {"CPU": 1}, "2 workers with 1 CPU each, 2 CPUs in all, all on one node"),
    ],
)
def test_demand(demand: Demand, bundle: dict[str, float], text: str) -> None:
    assert demand.bundle == bundle
    assert str(demand) == text


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1, "cpus": 0}, {"workers": 1, "gpus": -1}])
def test_impossible_demands(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least one worker"):
        Demand(**wrong)


def test_resources_in_words() -> None:
    assert resources_text({"CPU": 3.5, "GPU": 1, "memory": 1e9}) == "3.5 CPUs and 1 GPU"
    assert resources_text({"memory": 1e9}) == "no CPU"


def test_a_shortage_says_what_there_is_and_what_was_asked_for() -> None:
    assert shortage(Demand(5), {"CPU": 4, "memory": 1e9}, {"CPU": 1, "memory": 1e9}, 2) == (
        "The Ray cluster has 4 CPUs on 2 nodes, of which 1 CPU is free, and no place for the job. Expected room for 5 "
        "workers with 1 CPU each, 5 CPUs in all."
    )
