"""The run directory: its layout, how it is made, and the records in it.

- `layout` names the files; `run_dir_creation` makes the directory, or takes the one of an earlier run
- `atomic_files` writes files whole or not at all, by `temp_names`, and `directory_exchange` directories; `direct_io`
  writes large files past the page cache; `completion` notes that there is nothing left to train
- `regular_files` reads what something else may have written; `bounded_disk` does not wait for ever for a silent disk
- records, each a `json_record`: `worker_state_record`, `job_state_record` and `failure`, and the lines of the ledger
  (`ledger_lines`)
- `run_snapshot` reads all records of a run; `process_presence` tells whether the process that wrote one is still there
"""

from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir
from tfdist.rundir.run_dir_creation import create_run_dir, join_run_dir
from tfdist.rundir.worker_state_record import State, WorkerState

__all__ = ["Failure", "RunDir", "State", "WorkerState", "create_run_dir", "join_run_dir"]
