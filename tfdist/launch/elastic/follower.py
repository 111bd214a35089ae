"""A follower in an elastic job, any launcher but the leader: it knocks, and runs the generations that it is in."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from tfdist.errors import FormingError, WorkerFailedError
from tfdist.launch.elastic.job_steps import JobSteps, job_of_generation
from tfdist.launch.elastic.knock import End, Knock
from tfdist.launch.environment import read_token
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.job_terms import JobTerms
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.net.line_socket import LineError


class ElasticFollower:
    """A launcher that is not the chief's."""

    def __init__(self, spec: JobSpec, steps: JobSteps, signals: Signals) -> None:
        self._spec = spec
        self._steps = steps
        self._signals = signals

    def run(self) -> int:
        spec, last, is_first = self._spec, RunResult(0), True
        with self._knock() as knock:
            knock.meet(spec.start_timeout)
            while True:
                try:
                    said = knock.next_generation()
                    if isinstance(said, End):
                        return self._end(said, last)
                    membership = said.membership(spec.membership)
                except LineError as error:
                    raise FormingError(
                        f"The chief's launcher said something that is not understood: {error}. Install the same "
                        "version of tfdist on every host."
                    ) from None
                except WorkerFailedError:
                    self._steps.report(spec, last)
                    raise
                except LauncherStopped:
                    if last.stop is None:
                        raise
                    # The signal has stopped the workers of all hosts.
                    self._steps.report(spec, last)
                    return last.stop.code
                last = self._run(job_of_generation(spec, membership, is_first=is_first))
                is_first = is_first and last.run_dir is None
                if last.stop is not None and signal.SIGTERM in self._signals.received:
                    knock.leave()

    @contextlib.contextmanager
    def _knock(self) -> Iterator[Knock]:
        terms = JobTerms(self._spec)
        token = read_token(self._spec.environ)
        knock = Knock(self._spec.membership, token, terms.accept, self._signals, self._steps.say)
        with contextlib.closing(knock):
            yield knock

    def _run(self, spec: JobSpec) -> RunResult:
        """Runs one generation. What becomes of the job after it, the chief's launcher says."""
        try:
            return self._steps.run(spec, self._signals)
        except FormingError as error:
            self._steps.say(f"the workers have not started: {error}")
            return RunResult(error.exit_code)

    def _end(self, said: End, last: RunResult) -> int:
        self._steps.report(self._spec, last)
        if said.code and not last.failures and last.stop is None:
            self._steps.say(f"the job has ended with exit code {said.code}: {said.why or 'its scripts chose it'}")
        return said.code
