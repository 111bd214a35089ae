"""A worker that trains nothing, to test launchers with: it does what its arguments say.

Each argument is INDEX:ACTION[:VALUE]; the actions of this worker's index are done in their order. INDEX is a number,
`*` for all, or INDEX@ATTEMPT for one attempt alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.helpers.waiting import until
from tfdist.launch.environment import Assignment
from tfdist.launch.worker.config_handover import receive_config
from tfdist.launch.worker.launcher_channel import LauncherChannel
from tfdist.rundir import Failure, RunDir, State, WorkerState
from tfdist.rundir.failure import kind_of_error
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.heartbeat import LedgerWriter


def main() -> None:
    assignment = Assignment.from_environ()
    assert assignment is not None and assignment.channel_fd is not None
    trainer = Trainer(assignment)
    channel = LauncherChannel(assignment.channel_fd, handlers=trainer.answers())
    trainer.channel = channel
    channel.watch()
    run = RunDir(Path(assignment.run_dir))
    code = 0
    for argument in assignment.args:
        index, action, value = (*argument.split(":", 2), "")[:3]
        of_all, of_this = "*", str(assignment.index)
        if index in (of_all, of_this, f"{of_all}@{assignment.attempt}", f"{of_this}@{assignment.attempt}"):
            if action == "tell":
                channel.failed(error_of(value, 2, assignment).error_content())
                os._exit(2)
            code = trainer.act(action, value) or act(action, value, assignment, run) or code
    channel.finished(code, timeout=30)
    sys.exit(code)


class Trainer:
    """Plays a worker that trains: it says how far it is, and stops where it is told to.

    Actions: `account:N` trains to step N and accounts for the time, `limit:S` sets how long it may take, `step:N` says
    that it has come to step N, `train:S` takes a step every S seconds until it is told to stop, `busy:S` says that it
    takes S seconds a step for itself, `relay:N` tells of a signal, `deaf` answers nothing from then on.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.channel: LauncherChannel | None = None
        self._assignment = assignment
        self._limit: float | None = None
        self._busy = 0.0
        self._begun: int | None = None
        self._lock = threading.Lock()
        self._held = False
        self._after: int | None = None
        self._code = 0
        self._told = threading.Event()
        self._deaf = False

    def answers(self) -> dict[str, Callable[[Any], dict[str, Any] | None]]:
        return {"hold": self._hold, "stop": self._stop, "dump": self._dump}

    def act(self, action: str, value: str) -> int:
        if action == "account":
            self._account_for(int(value))
        elif action == "limit":
            self._limit = float(value)
        elif action == "busy":
            self._busy = float(value)
        elif action == "step":
            self._beat(int(value))
        elif action == "train":
            return self._train(float(value))
        elif action == "relay":
            self._line.signalled(int(value))
        elif action == "deaf":
            self._deaf = True
        return 0

    def _account_for(self, steps: int) -> None:
        """From the step that the last `step` has said."""
        begun = self._begun or 0
        activity = ActivityTracker(Limits(600.0, 600.0))
        activity.resume(0, begun)
        ledger = LedgerWriter(RunDir(Path(self._assignment.run_dir)).ledger_file, self._assignment.attempt, activity)
        with activity.calling("fit"):
            for _ in range(begun, steps):
                activity.begin_batches()
                self._told.wait(0.01)
                activity.end_batches(1)
        ledger.close()
        self._beat(steps)

    @property
    def _line(self) -> LauncherChannel:
        assert self.channel is not None
        return self.channel

    def _train(self, seconds: float) -> int:
        while True:
            with self._lock:
                step, held = self._begun or 0, self._held
                if self._after is not None and step >= self._after:
                    break
                if not held:
                    # What it answers from here on has this step in it.
                    self._begun = step = step + 1
            if held:
                assert self._told.wait(30)
            else:
                self._beat(step)
                self._told.wait(seconds)
        print(f"stopped after {step}", flush=True)
        return self._code

    def _beat(self, step: int) -> None:
        self._begun = step
        now = time.time()
        self._line.beat(
            WorkerState(
                index=self._assignment.index,
                address=self._assignment.address,
                host=socket.gethostname(),
                pid=os.getpid(),
                attempt=self._assignment.attempt,
                state=State.STEP,
                epoch=0,
                step=step,
                time=now,
                moves=step,
                moved=now,
                limit=self._limit,
                busy=self._busy,
            ).to_dict()
        )

    def _hold(self, _: Any) -> dict[str, Any] | None:
        with self._lock:
            self._held = True
            return None if self._deaf else {"begun": self._begun}

    def _stop(self, told: Any) -> None:
        with self._lock:
            self._after, self._code = told["after"], told["code"]
            self._held = False
        self._told.set()

    def _dump(self, _: Any) -> dict[str, Any] | None:
        return None if self._deaf else {"stacks": "File stand_in.py", "where": f"stand_in.py line {self._begun}"}


def act(action: str, value: str, assignment: Assignment, run: RunDir) -> int:
    """Does what an action says; returns the exit code that it asks for. Those of `Trainer` are none of these."""
    if action == "code":
        return int(value)
    if action in WRITING:
        print(WRITING[action](value, assignment), flush=True)
    elif action in ALONE:
        ALONE[action](value)
    elif action in OF_THE_JOB:
        OF_THE_JOB[action](value, assignment, run)
    return 0


def flood(value: str) -> None:
    for _ in range(100):
        print("x" * 50_000, flush=True)


def write(value: str) -> None:
    sys.stdout.write(value)
    sys.stdout.flush()


def start_child(value: str) -> None:
    """What a worker starts must end with it, and must not keep its output open."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(value).write_text(f"{child.pid}")


def start_daemon(value: str) -> None:
    """One that left its group keeps the output open."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    Path(value).write_text(f"{child.pid}")


def config_text(value: str, assignment: Assignment) -> str:
    config = receive_config(assignment.config_fd).config
    return f"{config.fit.epochs} epochs of {getattr(config.data.train, 'path', None)}"


def gpus_text(value: str, assignment: Assignment) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"worker {assignment.index} sees {visible}, {'its own' if assignment.own_gpus else 'shared'}"


def say_descriptors(value: str, assignment: Assignment, run: RunDir) -> None:
    wait_for_all(assignment, run)
    print(min(descriptors_of_the_launcher()), flush=True)


def chatter(index: int, times: int) -> None:
    """Writes what is hard to keep apart: half lines, long ones, letters in two parts, a progress bar."""
    letter = "é".encode()
    for number in range(times):
        os.write(2, f"\r{index}: {number + 1}/{times}".encode())
        os.write(1, f"{index} says ".encode())
        os.write(1, b"x" * 30_000 + letter[:1])
        os.write(2, b"#" * (number % 3))
        os.write(1, letter[1:] + b"\n")
    os.write(2, b"\n")


def wait_for_all(assignment: Assignment, run: RunDir) -> None:
    """Waits until the launcher, which starts all workers, has written a state for each."""
    files = [run.state_file(index) for index in range(assignment.num_workers)]

    def started(file: Path) -> bool:
        state = WorkerState.read(file)
        return state is not None and state.attempt == assignment.attempt

    until(lambda: all(map(started, files)), otherwise="not all workers were started")


def meet(folder: Path, assignment: Assignment) -> None:
    """Waits until all workers of the attempt have come here: some start a second after others."""
    own, *others = [folder / f"met-{assignment.attempt}-{(assignment.index + place) % assignment.num_workers}"
                    for place in range(assignment.num_workers)]  # fmt: skip
    own.touch()
    until(lambda: all(other.exists() for other in others), otherwise="the others did not come")


def descriptors_of_the_launcher() -> Iterator[int]:
    """How many it has open, again and again: some for the moment that it takes to write a file."""
    for _ in range(20):
        yield len(os.listdir(f"/proc/{os.getppid()}/fd"))
        time.sleep(0.01)


def measure_the_launcher(file: Path, assignment: Assignment) -> None:
    """Adds a line with what the launcher takes of the machine, and how many files of this user are in shared memory."""
    launcher = Path(f"/proc/{os.getppid()}")
    status = dict(line.split(":", 1) for line in (launcher / "status").read_text().splitlines())
    own = [entry for entry in os.scandir("/dev/shm") if entry.stat(follow_symlinks=False).st_uid == os.getuid()]
    taken = {
        "attempt": assignment.attempt,
        "descriptors": min(descriptors_of_the_launcher()),
        "threads": int(status["Threads"]),
        "kilobytes": int(status["VmRSS"].split()[0]),
        "shared": len(own),
    }
    with file.open("a") as lines:
        lines.write(json.dumps(taken) + "\n")


def listen(assignment: Assignment) -> None:
    """Takes the port as TensorFlow's server does, and says whether it could."""
    assert assignment.address is not None
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", int(assignment.address.rpartition(":")[2])))
    server.listen()
    server.detach()  # open until this process ends
    print(f"listening on {assignment.address}", flush=True)


def fail(message: str, code: int, assignment: Assignment, run: RunDir) -> None:
    error_of(message, code, assignment).write_error(run.error_file(assignment.index, assignment.attempt))
    os._exit(code)


def error_of(message: str, code: int, assignment: Assignment) -> Failure:
    return Failure(
        index=assignment.index,
        host=socket.gethostname(),
        pid=os.getpid(),
        exit_code=code,
        kind=kind_of_error(code),
        type=message.partition(" ")[0],
        message=message,
        traceback=f"Traceback (most recent call last):\n  stand-in\n{message}\n",
        time=time.time(),
    )


WRITING: dict[str, Callable[[str, Assignment], str]] = {
    "print": lambda value, _: value,
    "environ": lambda value, _: f"{value}={os.environ.get(value)}",
    "cores": lambda value, _: f"cores={sorted(os.sched_getaffinity(0))}",
    "config": config_text,
    "assignment": lambda _, told: f"seed={told.seed} run_dir={told.run_dir} rank={told.local_rank}",
    "gpus": gpus_text,
}
ALONE: dict[str, Callable[[str], Any]] = {
    "write": write,
    "flood": flood,
    "complain": lambda value: print(value, file=sys.stderr, flush=True),
    "touch": lambda value: Path(value).write_text(f"{os.getpid()}"),
    "await": lambda value: until(Path(value).exists, otherwise=f"nobody made {value}"),
    "swallow": lambda value: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "hang": lambda value: threading.Event().wait(60),
    "child": start_child,
    "daemon": start_daemon,
    "stop": lambda value: os.kill(os.getpid(), signal.SIGSTOP),
    "leave": lambda value: os._exit(int(value)),
    "signal": lambda value: os.kill(os.getpid(), int(value)),
}
OF_THE_JOB: dict[str, Callable[[str, Assignment, RunDir], Any]] = {
    "chatter": lambda value, told, run: chatter(told.index, int(value)),
    "meet": lambda value, told, run: meet(Path(value), told),
    "descriptors": say_descriptors,
    "measure": lambda value, told, run: measure_the_launcher(Path(value), told),
    "listen": lambda value, told, run: listen(told),
    "raise": lambda value, told, run: fail(value, 1, told, run),
    "data": lambda value, told, run: fail(value, 5, told, run),
}


if __name__ == "__main__":
    main()
