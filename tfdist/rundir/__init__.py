"""The run directory: its layout, how it is made, and the records in it.

- `layout` names the files; `run_dir_creation` makes the directory, or takes the one of an earlier run
- `atomic_files` writes files whole or not at all, by `temp_names`, and `directory_exchange` directories; `direct_io`
  writes large files past the page cache
- `regular_files` reads what something else may have written; `bounded_disk` does not wait for ever for a silent disk
- records, each a `json_record`: `state_records`, also of a run that has nothing left to train, and `failure`; and the
  lines of the ledger (`ledger_lines`)
- `run_snapshot` reads all records of a run; `process_presence` tells whether the process that wrote one is still there
"""

from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir
from tfdist.rundir.run_dir_creation import create_run_dir, join_run_dir
from tfdist.rundir.state_records import State, WorkerState

__all__ = ["Failure", "RunDir", "State", "WorkerState", "create_run_dir", "join_run_dir"]
