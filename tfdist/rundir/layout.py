"""Layout of a run directory: the paths of its files. Nothing here touches the disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """The files of one run.

    Attributes:
        path: The directory; made absolute, so that it does not depend on the working directory later.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path).absolute())

    def __str__(self) -> str:
        return str(self.path)

    @property
    def config_file(self) -> Path:
        """The resolved config, with the seed and the versions that the run used (YAML)."""
        return self.path / "config.yaml"

    @property
    def history_file(self) -> Path:
        """Metric name -> list of floats, one an epoch (JSON)."""
        return self.path / "history.json"

    @property
    def metrics_file(self) -> Path:
        """One line for each epoch, appended during the run (JSON lines)."""
        return self.path / "metrics.jsonl"

    @property
    def ledger_file(self) -> Path:
        """The ledger: what the wall time was spent on, appended by the chief and its launcher (JSON lines)."""
        return self.path / "ledger.jsonl"

    @property
    def resumes_file(self) -> Path:
        """One line for each resume from a checkpoint: at which step, and on how many replicas (JSON lines)."""
        return self.path / "resumes.jsonl"

    @property
    def model_file(self) -> Path:
        """The trained model, written by the chief."""
        return self.path / "model.keras"

    @property
    def weights_file(self) -> Path:
        """The weights of a script's model, written by the chief in the place of a model that cannot be saved whole."""
        return self.path / "model.weights.h5"

    @property
    def checkpoints_dir(self) -> Path:
        """The checkpoints, each a directory, written by the chief."""
        return self.path / "checkpoints"

    @property
    def failure_file(self) -> Path:
        """The failure that ended the run (JSON); absent when nothing failed."""
        return self.path / "failure.json"

    @property
    def events_dir(self) -> Path:
        """TensorBoard's event files."""
        return self.path / "events"

    @property
    def logs_dir(self) -> Path:
        """The workers' stdout and stderr."""
        return self.path / "logs"

    @property
    def state_dir(self) -> Path:
        """The workers' states and error files, and the records of the run and its job."""
        return self.path / "state"

    @property
    def run_file(self) -> Path:
        """Marks this directory as made by tfdist: without it, nothing here is ever removed (JSON)."""
        return self.state_dir / "run.json"

    @property
    def copy_file(self) -> Path:
        """The start of the run that the copy in a bucket is of, as far as this host has written it (JSON)."""
        return self.state_dir / "copy.json"

    @property
    def job_file(self) -> Path:
        """The `JobState`: the phase that the job is in (JSON)."""
        return self.state_dir / "job.json"

    def attempt_failure_file(self, attempt: int) -> Path:
        """The failure that ended attempt number `attempt`, if another one followed (JSON)."""
        return self.state_dir / f"failure.{attempt}.json"

    @property
    def done_file(self) -> Path:
        """Marks the run as complete, with its number of epochs (JSON)."""
        return self.state_dir / "done.json"

    def log_file(self, index: int, attempt: int) -> Path:
        """The output of worker `index` in attempt number `attempt`."""
        return self.logs_dir / f"worker-{index}.{attempt}.log"

    def state_file(self, index: int) -> Path:
        """The `WorkerState` of worker `index` (JSON)."""
        return self.state_dir / f"worker-{index}.json"

    def error_file(self, index: int, attempt: int) -> Path:
        """The `Failure` that worker `index` wrote in attempt number `attempt` (JSON)."""
        return self.state_dir / f"worker-{index}.{attempt}.error.json"
