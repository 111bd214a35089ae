"""Runs a module of outcomes on a number of workers, and reads what each of them wrote."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.cli_process import tfdist


class OutcomeJobs:
    """Runs all outcomes of a module, `tests.exactness` or one like it, once for each number of workers and of samples.

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

    def run_dir(self, workers: int, samples: int) -> Path:
        """The run directory of the job on so many workers with so many samples."""
        return self._folder / f"run-{workers}-{samples}"

    def _outcomes(self, workers: int, samples: int) -> list[dict[str, Any]]:
        out = self._folder / f"outcome-{workers}-{samples}"
        options = [] if workers == 1 else ["--nproc", workers, *self._options]
        try:
            done = tfdist("train", *options, "--run-dir", self.run_dir(workers, samples), "-m",
                          *self._module.split(), out, samples, *self._names, timeout=self._bound,
                          environ=self._environ)  # fmt: skip
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
