"""The launcher of a notebook's job: `python -m tfdist.notebook.launcher_process FOLDER`.

Its stdin is a pipe that the kernel holds open and writes nothing to. When the kernel is gone, restarted or killed, the
pipe ends, and the job is stopped as by SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from tfdist.errors import TfdistError
from tfdist.launch.environment import count_gpus_here
from tfdist.launch.gpus.worker_choice import with_chosen_workers
from tfdist.launch.job import run_to_result
from tfdist.notebook.call_folder import CallFolder
from tfdist.notebook.job_outcome import JobOutcome
from tfdist.notebook.launch_options import job_of
from tfdist.text import print_line


def main(folder: CallFolder) -> int:
    """Runs the job, writes its outcome and returns the exit code."""
    is_alone = threading.Event()
    threading.Thread(target=_stop_without_kernel, args=(is_alone,), name="kernel-watch", daemon=True).start()
    outcome = _run(folder)
    if is_alone.is_set():
        # Nobody is left to read how the job ended, or to remove what was handed on.
        folder.remove()
    else:
        outcome.write(folder)
    return outcome.code


def _run(folder: CallFolder) -> JobOutcome:
    request = json.loads(folder.request.read_text())
    try:
        job = job_of(str(folder.path), request["name"], request["nproc"], request["options"])
        job, chosen = with_chosen_workers(job, count_gpus_here)
        if chosen and not job.quiet:
            print_line(f"tfdist: {chosen.replace('--nproc ', 'nproc=')}", sys.stderr)
        return JobOutcome.of_result(run_to_result(job), verbose=job.verbose)
    except TfdistError as error:
        return JobOutcome.of_error(error)


def _stop_without_kernel(is_alone: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    is_alone.set()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(CallFolder(Path(sys.argv[1]))))
