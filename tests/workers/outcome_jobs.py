"""Runs a module of outcomes on a number of workers, and reads what each of them wrote."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.cli_process import tfdist

_AT_ONCE = 60
"""Outcomes of one job. Those that come after an exchange that fails, fail too."""


class OutcomeJobs:
    """Runs all outcomes of a module, `tests.exactness` or one like it, once for each number of workers and of samples.

    Many are run by several jobs, one after another.

    Args:
        folder: For what the jobs write.
        module: Called with OUT, SAMPLES and names; with a blank in it, a module and its first argument.
        names: Of the outcomes.
        bound: Seconds that a job may take.
        options: Of `tfdist train`, on several workers.
        environ: Variables besides this process's.

    Attributes:
        outcomes: Called with the workers and the samples: what each worker wrote, by the names, as far as it came.
    """

    def __init__(self, folder: Path, module: str, names: Sequence[str], bound: float,
                 options: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> None:  # fmt: skip
        self._options, self._environ = options, environ
        self._folder, self._module, self._names, self._bound = folder, module, names, bound
        self.outcomes = functools.cache(self._outcomes)

    def logs_of_last(self, workers: int, samples: int) -> str:
        """What the last worker printed of all outcomes."""
        logs = self._folder.glob(f"run-{workers}-{samples}-*/logs/worker-{workers - 1}.0.log")
        return "".join(log.read_text() for log in logs)

    def _outcomes(self, workers: int, samples: int) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = [{} for _ in range(workers)]
        for first in range(0, len(self._names), _AT_ONCE):
            for outcomes, found in zip(written, self._some(workers, samples, first), strict=True):
                outcomes.update(found)
        return written

    def _some(self, workers: int, samples: int, first: int) -> list[dict[str, Any]]:
        out = self._folder / f"outcome-{workers}-{samples}-{first}"
        options = [] if workers == 1 else ["--nproc", workers, *self._options]
        try:
            done = tfdist("train", *options, "--run-dir", self._folder / f"run-{workers}-{samples}-{first}", "-m",
                          *self._module.split(), out, samples, *self._names[first : first + _AT_ONCE],
                          timeout=self._bound, environ=self._environ)  # fmt: skip
            if done.returncode != 0:
                print(done.stderr)
        except subprocess.TimeoutExpired as timeout:
            # Once for all outcomes: those that were written before it are as good as ever.
            print(timeout)
        files = [Path(f"{out}.{index}") for index in range(workers)]
        return [_written(file) if file.exists() else {} for file in files]


def _written(file: Path) -> dict[str, Any]:
    """The outcomes by their names, without one that was cut short."""
    return dict(json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n"))
