"""What a worker is doing, as its state file says it: written by the worker, read by the launcher and by people."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tfdist.rundir.json_record import JsonRecord


class State(enum.StrEnum):
    """The life of one worker process.

    ::

        starting -> compiling -> step <-> callback, evaluating, saving -> finished

    Every state but `finished` can go to `failed`. A script may go from any of them to any other: it evaluates before
    it trains, or trains twice. `starting` is everything outside of `fit`, `evaluate` and `predict`; `compiling` lasts
    until the first step of one of them is done; `evaluating` is `evaluate` and `predict`, inside of `fit` too.
    """

    STARTING = "starting"
    COMPILING = "compiling"
    STEP = "step"
    CALLBACK = "callback"
    EVALUATING = "evaluating"
    SAVING = "saving"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class WorkerState(JsonRecord):
    """One worker at one moment.

    Attributes:
        index: The worker's place in the cluster; 0 is the chief.
        address: `host:port` in the cluster; None in a run of one worker, which has no cluster.
        host: The machine's own name.
        pid: The worker's process id on that machine.
        attempt: Which start of the worker this is, from 0.
        state: What it does; a `State` or its value.
        epoch: The epoch it is in, from 0.
        step: Batches done since the run began, over epochs and attempts.
        time: When this was written, in seconds since 1970 (UTC).
        moves: How often the worker got on: batches of any kind, callbacks, changes of state. It never falls.
        moved: When it last did, in seconds since 1970 (UTC).
        limit: Seconds without a move after which the worker hangs; None where it may take any time.
        rate: Samples of the global batch per second over the last steps; 0 while that is not known.
        busy: Seconds a step that this worker takes for itself, without waiting for the others, over the last steps; 0
            while that is not known.

    Raises:
        ValueError: `state` is none of `State`.
    """

    index: int
    address: str | None
    host: str
    pid: int
    attempt: int
    state: State
    epoch: int
    step: int
    time: float
    moves: int = 0
    moved: float = 0.0
    limit: float | None = None
    rate: float = 0.0
    busy: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    @property
    def is_forming(self) -> bool:
        """Whether it waits for TensorFlow to form the cluster: the only time before a `fit` that has a limit."""
        return self.state is State.STARTING and self.limit is not None
