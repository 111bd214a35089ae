"""One host of a verification: its launcher, which is started, lost and started again, with what it is asked."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from tfdist.cluster.discover import discover
from tfdist.launch.elastic.elastic_options import MAX_RESTARTS, ElasticOptions
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.worker.worker_process import WORKER_MODULE
from tfdist.launch.worker_requests import TraceRequest
from tfdist.rundir import RunDir
from tfdist.verify.hosts.namespace_hosts import NamespaceHost
from tfdist.verify.runs import TargetSpec, last_line

_MODULE = "tfdist.verify.hosts.host_launcher"
_SECONDS = 20


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


@dataclass
class HostProcess:
    """One host.

    Attributes:
        place: The host.
        request: What its launcher is asked to do, each time the same.
        out: Gets what the launcher prints; None for this process's own output.
    """

    place: NamespaceHost
    request: HostRequest
    out: Path | None
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def code(self) -> int | None:
        """The exit code of its launcher, negative for a signal; None while it runs, or where there is none."""
        return None if self._process is None else self._process.poll()

    @property
    def said(self) -> str:
        """All that its launchers have said of the job."""
        file = Path(self.request.said_file)
        return file.read_text() if file.exists() else ""

    @property
    def last_words(self) -> str:
        """The last line of its launcher, or else of its latest worker; empty where neither has said anything."""
        logs = RunDir(Path(self.request.run_dir)).logs_dir
        latest = sorted(logs.glob("worker-*.log"), key=lambda log: log.stat().st_mtime)[-1:]
        return next((line for log in (self.out, *latest) if log is not None and (line := last_line(log))), "")

    def start(self) -> None:
        """Starts its launcher. A link that was cut is there again.

        Raises:
            OSError: It cannot be started.
        """
        self.place.set_link("up")
        with contextlib.ExitStack() as stack:
            out = None if self.out is None else stack.enter_context(self.out.open("ab"))
            process = subprocess.Popen(
                [*self.place.prefix, sys.executable, "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,  # an interrupt from the terminal is for the verification
            )
        self._process = process
        assert process.stdin is not None
        # One that has ended at once is seen by its exit code.
        with contextlib.suppress(BrokenPipeError), process.stdin as file:
            self.request.write(file)

    def lose(self, *, is_cut: bool = False) -> None:
        """Ends all that runs there, as a loss of power does.

        Args:
            is_cut: Whether its link is cut first, so that nobody else notices by a connection that breaks.

        Raises:
            OSError: It does not end.
        """
        if is_cut:
            self.place.set_link("down")
        self.place.kill()
        self._forget()

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait(_SECONDS)
