"""Request to the launcher on one host, which it reads from its standard input."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from tfdist.cluster.discover import discover
from tfdist.launch.elastic.elastic_options import MAX_RESTARTS, ElasticOptions
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.trace_request import TraceRequest
from tfdist.launch.worker.worker_process import WORKER_MODULE
from tfdist.verify.target_spec import TargetSpec


@dataclass(frozen=True)
class HostRequest:
    """A request to a host's launcher, as to `tfdist train --workers ... --min-workers ... --grow`.

    Attributes:
        spec: The target and the options.
        workers: `--workers`.
        elastic: Of the elastic job.
        trace: What all workers trace.
        run_dir: This host's run directory.
        said_file: Gets every line that the launcher says of the job.
        worker_module: The module that workers run.
    """

    spec: TargetSpec
    workers: str
    elastic: ElasticOptions
    trace: TraceRequest
    run_dir: str
    said_file: str
    worker_module: str = WORKER_MODULE

    def job(self) -> JobSpec:
        """The job, on the host that calls this.

        Raises:
            TfdistError: As `discover` and `JobSpec`.
        """
        return self.spec.job(
            discover(self.workers, environ={}),
            Path(self.run_dir),
            elastic=self.elastic,
            max_restarts=MAX_RESTARTS,
            resume="auto",
            trace=self.trace,
            worker_module=self.worker_module,
        )

    def write(self, file: IO[bytes]) -> None:
        """Hands it over to a process of the same installation, which nobody else can write to: it is pickled."""
        pickle.dump(self, file)
        file.flush()

    @classmethod
    def read(cls, file: IO[bytes]) -> Self:
        """Returns what the process that has started this one wrote."""
        request: Self = pickle.load(file)
        return request
