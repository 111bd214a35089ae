"""What lies where in a run directory: names only, nothing here touches the disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """The files of one run.

    Attributes:
        path: The directory; made absolute, so that a later change of the working directory moves nothing.
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
        """One line an epoch, appended while the run goes on (JSON lines)."""
        return self.path / "metrics.jsonl"

    @property
    def ledger_file(self) -> Path:
        """Where the wall time went, appended by the chief and its launcher (JSON lines)."""
        return self.path / "ledger.jsonl"

    @property
    def resumes_file(self) -> Path:
        """One line each time that a training went on from a checkpoint: where, and on what (JSON lines)."""
        return self.path / "resumes.jsonl"

    @property
    def model_file(self) -> Path:
        """The trained model, written by the chief."""
        return self.path / "model.keras"

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
        """What the workers wrote to their stdout and stderr."""
        return self.path / "logs"

    @property
    def state_dir(self) -> Path:
        """What the workers are doing, their error files and the run's own record."""
        return self.path / "state"

    @property
    def run_file(self) -> Path:
        """Says that tfdist made this directory: without it, nothing here is ever removed (JSON)."""
        return self.state_dir / "run.json"

    @property
    def job_file(self) -> Path:
        """The `JobState`: where in its life the job is (JSON)."""
        return self.state_dir / "job.json"

    def attempt_failure_file(self, attempt: int) -> Path:
        """The failure that ended the start number `attempt`, after which there was another (JSON)."""
        return self.state_dir / f"failure.{attempt}.json"

    @property
    def done_file(self) -> Path:
        """Says that the run came to its end, and after how many epochs (JSON)."""
        return self.state_dir / "done.json"

    def log_file(self, index: int, attempt: int) -> Path:
        """The output of worker `index` in its start number `attempt`."""
        return self.logs_dir / f"worker-{index}.{attempt}.log"

    def state_file(self, index: int) -> Path:
        """The `WorkerState` of worker `index` (JSON)."""
        return self.state_dir / f"worker-{index}.json"

    def error_file(self, index: int, attempt: int) -> Path:
        """The `Failure` that worker `index` wrote in its start number `attempt` (JSON)."""
        return self.state_dir / f"worker-{index}.{attempt}.error.json"
