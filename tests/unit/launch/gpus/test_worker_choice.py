from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdist.cluster.discover import discover
from tfdist.cluster.membership import Membership
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.gpus.usable_gpus import GpuCount
from tfdist.launch.gpus.worker_choice import choose_workers, with_chosen_workers
from tfdist.launch.job_spec import JobSpec

ALONE = discover(environ={})
TF_CONFIG = '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'


def counts(number: int, problem: str = "") -> Callable[[], GpuCount]:
    return lambda: GpuCount(number, problem)


def never() -> GpuCount:
    raise AssertionError("nobody needed to know, and it takes a second to ask")


@pytest.mark.parametrize(
    ("found", "asked", "workers", "says"),
    [
        (counts(4), {}, 4, "one worker on each of 4 GPUs; --nproc 1 runs one process on all of them"),
        (counts(4), {"devices": (1, 3)}, 2, "one worker on each of 2 GPUs"),
        (counts(0), {}, 1, None),
        (counts(1), {}, 1, None),
        (counts(1), {"devices": (0, 1)}, 1, None),  # the worker refuses it
        (counts(2), {"devices": (0, 2)}, 1, None),
        (counts(4), {"logical": 2}, 1, "one process on 4 GPUs, as it is to split them into logical devices (2 each)"),
        (counts(4, "it hangs"), {}, 1, "not sure how many there are (it hangs); --nproc N starts N workers"),
        (never, {"devices": (3,)}, 1, None),
        (never, {"membership": discover(nproc=1)}, 1, None),
        (never, {"membership": discover(nproc=3)}, 3, None),
        (never, {"membership": discover(environ={"TF_CONFIG": TF_CONFIG})}, 1, None),
    ],
)
def test_workers(found: Callable[[], GpuCount], asked: dict[str, Any], workers: int, says: str | None) -> None:
    choice = choose_workers(found, **{"membership": ALONE, "devices": None, "logical": None, **asked})
    assert choice.workers == workers
    assert says in choice.text if says else choice.text == ""


@pytest.mark.parametrize(
    ("line", "workers"),
    [
        ("strategy = tf.distribute.MirroredStrategy()", 1),
        ("with MirroredStrategy (['GPU:0']).scope():", 1),
        ("strategy = tf.distribute.MultiWorkerMirroredStrategy()", 3),
        ("# unlike MirroredStrategy, ...", 3),
        ("model.fit(x, y)", 3),
    ],
)
def test_a_script_with_a_strategy_of_one_process_has_one(line: str, workers: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import tensorflow as tf\n{line}\n")
    choice = choose_workers(
        counts(3), membership=ALONE, devices=None, logical=None, script=str(tmp_path / "train.py")
    )
    assert choice.workers == workers
    assert ("as the script makes a MirroredStrategy" in choice.text) == (workers == 1)


def job(membership: Membership = ALONE, **options: Any) -> JobSpec:
    return JobSpec(membership, "module", "train", **options)


def test_the_job_has_as_many_workers() -> None:
    made, said = with_chosen_workers(job(shard="zero1"), counts(2))
    assert made.membership.num_workers == 2
    assert made.membership.local == (0, 1)
    assert made.membership.ports_chosen
    assert made.worker_per_gpu and made.shard == "zero1"
    assert said.startswith("one worker on each of 2 GPUs")


@pytest.mark.parametrize(
    "given",
    [job(discover(nproc=2)), job(discover(nproc=1)), job(elastic=ElasticOptions(1)), job(devices=(0,)), job()],
)
def test_other_jobs_stay_as_they_are(given: JobSpec) -> None:
    assert with_chosen_workers(given, counts(1)) == (given, "")
