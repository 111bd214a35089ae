"""What a launcher says of a job that failed or was stopped: the first failure, then what followed from it."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Sequence

from tfdist.launch.agent.failure_diagnosis import Failure
from tfdist.launch.peers.messages import Restart
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.channel_protocol import CALLED

_MESSAGE_CHARACTERS = 300


def render_report(outcome: RunResult, *, verbose: bool = False) -> str:
    """The report, without a newline at its end; empty when the job went well or its scripts chose its exit code."""
    if outcome.stop is not None:
        lines = [f"stopped: {outcome.stop.why}; all workers have ended"]
        lines += [f"  ended where they were, not after the same step: {outcome.advice}"] if outcome.advice else []
        others = [failure for failure in outcome.failures if failure.type != signal.SIGTERM.name]
        lines += [f"  meanwhile {_who(failure)} failed: {_shorten(_what(failure))}" for failure in others]
        return "\n".join(lines)
    if not outcome.failures:
        return ""
    first, *others = outcome.failures
    advice = [f"  not restarted: {outcome.advice}"] if outcome.advice else []
    return "\n".join([*_first(first, verbose), *_others(first, others), *advice])


def render_restart(outcome: RunResult, restart: Restart, *, verbose: bool = False) -> str:
    """What is said of an attempt that failed when there is another one, without a newline at its end."""
    return f"{render_report(outcome, verbose=verbose)}\nall workers start again in {restart.delay:g} s ({restart.why})"


def _first(failure: Failure, verbose: bool) -> list[str]:
    explained = failure.kind in ("usage", "data")
    lines = [f"error: {_who(failure)} failed{_when(failure)}: {_what(failure)}"]
    if failure.traceback and (verbose or not explained):
        shown = failure.traceback if verbose else _telling_threads(failure)
        lines.append(textwrap.indent(shown.rstrip(), "  "))
    elif failure.last_lines and not explained:
        lines.append("  the end of its log:")
        lines += [f"    {line}" for line in failure.last_lines]
    if failure.log:
        lines.append(f"  its log: {failure.log} (on {failure.host})")
    return lines


def _telling_threads(failure: Failure) -> str:
    """Of a hang's stacks the main thread's, and those that run the user's functions; the others are in the log."""
    if failure.kind != "hang":
        return failure.traceback
    main, *others = failure.traceback.split("\nThread ")
    called = [thread for thread in others if thread.partition(":\n")[0].endswith(CALLED)]
    return "\nThread ".join([main, *called])


def _others(first: Failure, failures: Sequence[Failure]) -> list[str]:
    same = [failure for failure in failures if _what(failure) == _what(first)]
    after = [failure for failure in failures if _what(failure) != _what(first)]
    lines = [f"  the same on {', '.join(map(_who, same))}"] if same else []
    if after:
        lines.append("  after it, and most likely because of it:")
        lines += [f"    {_who(failure)}: {_shorten(_what(failure))}" for failure in after]
    return lines


def _who(failure: Failure) -> str:
    where = failure.host if failure.address is None else f"{failure.host}, {failure.address}"
    process = "" if failure.pid is None else f", pid {failure.pid}"
    return f"worker {failure.index} ({where}{process})"


def _when(failure: Failure) -> str:
    return "" if failure.step is None else f" in epoch {(failure.epoch or 0) + 1} after step {failure.step}"


def _what(failure: Failure) -> str:
    # An error of tfdist's own explains itself; of others the class says half of it.
    if failure.type and failure.kind == "exception":
        return f"{failure.type}: {failure.message}"
    return failure.message


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 3] + "..."
