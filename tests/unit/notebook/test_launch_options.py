"""Options of `notebook_launcher`: names, types and the job that they make."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.launch.job_spec import JobSpec
from tfdist.notebook.launch_options import NAMES, checked_options, job_of


def test_every_option_is_one_of_the_job() -> None:
    assert set(NAMES) <= {field.name for field in dataclasses.fields(JobSpec)}


def test_the_job_has_the_options() -> None:
    options = checked_options({"logical_devices": 2, "devices": (0, 1), "run_dir": Path("runs/a"), "seed": None})
    job = job_of("/folder", "train", 2, options)
    assert (job.logical_devices, job.devices, job.run_dir, job.seed) == (2, (0, 1), "runs/a", None)
    assert (job.target_kind, job.args, job.name, job.membership.num_workers) == ("module", ("/folder",), "train", 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nprocs": 2}, "no option 'nprocs'. Did you mean 'nproc'?"),
        ({"step_timeuot": 2}, "Did you mean 'step_timeout'?"),
        ({"config": "a.yaml"}, "no option 'config'"),
        ({"logical_devices": 0}, "logical_devices expected a whole number of at least 1. Received: 0"),
        ({"logical_devices": 1.5}, "Received: 1.5"),
        ({"max_restarts": True}, "max_restarts expected a whole number of at least 0. Received: True"),
        ({"grace": "30"}, "grace expected a number of seconds. Received: '30'"),
        ({"overwrite": "no"}, "overwrite expected True or False. Received: 'no'"),
        ({"devices": 0}, "devices expected a list of indices of GPUs, such as [0, 1]. Received: 0"),
        ({"run_dir": 3}, "run_dir expected a path. Received: 3"),
    ],
)
def test_what_no_job_takes_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        checked_options(options)
    assert said in str(error.value)


@pytest.mark.parametrize("options", [{"resume": "maybe"}, {"grace": 0}, {"show": "some"}])
def test_impossible_values_are_refused_by_the_job(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        job_of("/folder", "train", 1, checked_options(options))
