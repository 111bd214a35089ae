"""The run directory: what lies where, how it is made, and how files get into it whole."""

from tfdist.rundir.creation import create_run_dir, join_run_dir
from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir
from tfdist.rundir.worker_state import State, WorkerState

__all__ = ["Failure", "RunDir", "State", "WorkerState", "create_run_dir", "join_run_dir"]
