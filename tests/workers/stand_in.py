"""A worker that trains nothing, to test launchers with: it does what its arguments say.

Each argument is INDEX:ACTION[:VALUE]; the actions of this worker's index are done in their order.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tfdist.launch.channel import WorkerChannel
from tfdist.launch.environment import Assignment
from tfdist.rundir import ErrorRecord, RunDir


def main() -> None:
    assignment = Assignment.from_environ()
    assert assignment is not None and assignment.channel_fd is not None
    channel = WorkerChannel(assignment.channel_fd)
    channel.watch()
    run = RunDir(Path(assignment.run_dir))
    code = 0
    for argument in assignment.args:
        index, action, value = (*argument.split(":", 2), "")[:3]
        if index in (str(assignment.index), "*"):
            if action == "tell":
                channel.failed(error_of(value, 2, assignment).to_dict())
                os._exit(2)
            code = act(action, value, assignment, run) or code
    channel.finished(code, timeout=30)
    sys.exit(code)


def act(action: str, value: str, assignment: Assignment, run: RunDir) -> int:
    if action == "print":
        print(value, flush=True)
    elif action == "write":
        sys.stdout.write(value)
        sys.stdout.flush()
    elif action == "flood":
        for _ in range(100):
            print("x" * 50_000, flush=True)
    elif action == "complain":
        print(value, file=sys.stderr, flush=True)
    elif action == "touch":
        Path(value).write_text(f"{os.getpid()}")
    elif action == "environ":
        print(f"{value}={os.environ.get(value)}", flush=True)
    elif action == "assignment":
        print(f"seed={assignment.seed} run_dir={assignment.run_dir} rank={assignment.local_rank}", flush=True)
    elif action == "sleep":
        time.sleep(float(value))
    elif action == "swallow":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif action == "hang":
        threading.Event().wait(60)
    elif action == "child":
        # What a worker starts must end with it, and must not keep its output open.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        Path(value).write_text(f"{child.pid}")
    elif action == "listen":
        listen(assignment)
    elif action == "code":
        return int(value)
    elif action == "leave":
        os._exit(int(value))
    elif action == "signal":
        os.kill(os.getpid(), int(value))
    elif action == "raise":
        fail(value, 1, assignment, run)
    elif action == "data":
        fail(value, 5, assignment, run)
    return 0


def listen(assignment: Assignment) -> None:
    """Takes the port as TensorFlow's server does, and says whether it could."""
    assert assignment.address is not None
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", int(assignment.address.rpartition(":")[2])))
    server.listen()
    print(f"listening on {assignment.address}", flush=True)


def fail(message: str, code: int, assignment: Assignment, run: RunDir) -> None:
    error_of(message, code, assignment).write(run.error_file(assignment.index, assignment.attempt))
    os._exit(code)


def error_of(message: str, code: int, assignment: Assignment) -> ErrorRecord:
    return ErrorRecord(
        index=assignment.index,
        host=socket.gethostname(),
        pid=os.getpid(),
        exit_code=code,
        type=message.partition(" ")[0],
        message=message,
        traceback=f"Traceback (most recent call last):\n  stand-in\n{message}\n",
        time=time.time(),
    )


if __name__ == "__main__":
    main()
