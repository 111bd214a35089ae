"""What is known of an attempt whose launcher was killed, for the ledger: its last lines were never written.

The workers end with their launcher. Until then the chief has kept its state file, once a second.
"""

from __future__ import annotations

from tfdist.errors import RunDirError
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import (
    AttemptPhase,
    LedgerEntry,
    LedgerEvent,
    LedgerInterval,
    TimeKind,
    read_further,
)
from tfdist.rundir.worker_state import State, WorkerState

_MOST_BYTES = 1 << 20
"""Of the end of the ledger: the lines of the last attempt's end."""


def lines_of_killed(run: RunDir) -> list[LedgerEntry]:
    """The lines that the ledger of a run lacks of its last attempt; none where its launcher has ended it.

    From the last line on, the steps that the state tells of count as training, with all that lay between them. A ledger
    that cannot be read has none.

    Args:
        run: The run, which no launcher holds, with the states of its last start.
    """
    try:
        entries, _ = read_further(run.ledger_file, max(0, run.ledger_file.stat().st_size - _MOST_BYTES))
    except (OSError, RunDirError):
        return []
    events = [entry for entry in entries if isinstance(entry, LedgerEvent)]
    state = _state(run)
    if not entries or (events and events[-1].phase is not AttemptPhase.RUNNING) or state is None:
        return []
    attempt = entries[-1].attempt
    if state.attempt != attempt or state.state is State.FINISHED:
        return []
    lines: list[LedgerEntry] = []
    did = [entry for entry in entries if isinstance(entry, LedgerInterval) and entry.attempt == attempt]
    at = max(entries[-1].at, state.moved)
    if did and state.step > did[-1].step and state.moved > did[-1].at:
        seconds = {TimeKind.STEP.value: round(state.moved - did[-1].at, 6)}
        lines.append(
            LedgerInterval(attempt, did[-1].at, state.moved, seconds, state.step - did[-1].step, state.step)
        )
    lines.append(LedgerEvent(attempt, at, AttemptPhase.FAILED, why="its launcher was killed", step=state.step))
    return lines


def _state(run: RunDir) -> WorkerState | None:
    try:
        return WorkerState.read(run.state_file(0))
    except RunDirError:
        # A host that failed may have left half of it.
        return None
