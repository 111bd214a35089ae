"""A launcher as `tfdist.cli.launch.bound_launcher`, whose workers train nothing: `tests.workers.stand_in_worker`."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from tfdist.cli import train as train_verb
from tfdist.cli.launch.bound_launcher import stop_with_stdin
from tfdist.cli.main import main
from tfdist.launch.job_spec import JobSpec


def with_stand_ins(make: Any, *args: Any, **options: Any) -> JobSpec:
    return dataclasses.replace(make(*args, **options), worker_module="tests.workers.stand_in_worker")


if __name__ == "__main__":
    stop_with_stdin()
    train_verb._job = functools.partial(with_stand_ins, train_verb._job)
    sys.exit(main(prog_name="tfdist"))
