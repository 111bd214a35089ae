"""One real launcher of a job: `python -m benchmarks.scale.launcher_process FOLDER INDEX`.

It says that it is ready, begins when it hears a line, and says at its end when that was, and how many messages to and
from other launchers it sent and took in during each second.
"""

from __future__ import annotations

import collections
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.scale.scale_job import ScaleJob
from tfdist.cluster.membership import Membership
from tfdist.errors import TfdistError
from tfdist.launch.job import run_job
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.rendezvous import cluster_formation
from tfdist.net.line_socket import LineSocket, Message


class MessageCount:
    """Counts what all lines carry, by the second; those to this launcher's own worker are among them."""

    def __init__(self) -> None:
        self.by_second: dict[str, collections.Counter[int]] = {
            name: collections.Counter() for name in ("sent", "sent_bytes", "received")
        }

    def begin(self) -> None:
        """Counts from now on, in this process."""
        send, receive = LineSocket.send_encoded, LineSocket.receive

        def counted_send(line: LineSocket, body: bytes) -> None:
            self.by_second["sent"][int(time.monotonic())] += 1
            self.by_second["sent_bytes"][int(time.monotonic())] += len(body)
            send(line, body)

        def counted_receive(line: LineSocket, limit: int | None = None) -> list[Message]:
            messages = receive(line, limit)
            if messages:
                self.by_second["received"][int(time.monotonic())] += len(messages)
            return messages

        setattr(LineSocket, "send_encoded", counted_send)  # noqa: B010 mypy refuses the assignment
        setattr(LineSocket, "receive", counted_receive)  # noqa: B010


def main() -> int:
    """Runs the launcher."""
    folder, index = Path(sys.argv[1]), int(sys.argv[2])
    job, count = ScaleJob.read(folder), MessageCount()
    cluster = job.cluster
    spec = JobSpec(
        Membership(cluster, (index,)),
        "script",
        "none.py",
        run_dir=str(folder / f"run-{index}"),
        quiet=True,
        show="none",
        start_timeout=job.timeout,
        worker_module="benchmarks.scale.stepping_worker",
    )
    count.begin()
    say({"ready": cluster_formation.__name__})  # which is imported now, and not while it is timed
    sys.stdin.readline()
    try:
        code = run_job(spec)
    except TfdistError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    say({"ended": time.monotonic(), "code": code, "cpu_seconds": time.process_time(), "messages": count.by_second})
    return 0


def say(message: dict[str, Any]) -> None:
    """Prints a line of JSON."""
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main())
