"""Launcher on one host: a process of its own, as `tfdist train` is; it ends with its host."""

from __future__ import annotations

import sys
from pathlib import Path

from tfdist.errors import TfdistError
from tfdist.launch.elastic.elastic_job import JobSteps, run_elastic_job
from tfdist.launch.job import run_to_result, say_report
from tfdist.launch.rendezvous.missing_workers import print_progress
from tfdist.verify.hosts.host_process import HostRequest


def main() -> int:
    """Runs what standard input asks for; returns the exit code."""
    request = HostRequest.read(sys.stdin.buffer)
    said_file = Path(request.said_file)

    def say(text: str) -> None:
        with said_file.open("a") as file:
            file.write(f"{text}\n")
        print_progress(text)

    try:
        return run_elastic_job(request.job(), JobSteps(run_to_result, say_report, say))
    except TfdistError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
