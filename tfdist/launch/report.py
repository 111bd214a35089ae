"""What a launcher says of a job that failed or was stopped: the first failure, then what followed from it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tfdist.launch.failures import Failure
from tfdist.launch.group import Outcome

_MESSAGE_CHARACTERS = 300


def render(outcome: Outcome, *, verbose: bool = False) -> str:
    """The report, without a newline at its end; empty when the job went well or its scripts chose its exit code."""
    if outcome.stop is not None:
        return f"stopped: {outcome.stop.why}; all workers have ended"
    if not outcome.failures:
        return ""
    first, *others = outcome.failures
    return "\n".join([*_first(first, verbose), *_others(first, others)])


def _first(failure: Failure, verbose: bool) -> list[str]:
    explained = failure.kind in ("usage", "data")
    lines = [f"error: {_who(failure)} failed: {_what(failure)}"]
    if failure.traceback and (verbose or not explained):
        lines.append(textwrap.indent(failure.traceback.rstrip(), "  "))
    elif failure.last_lines and not explained:
        lines.append("  the end of its log:")
        lines += [f"    {line}" for line in failure.last_lines]
    if failure.log:
        lines.append(f"  its log: {failure.log} (on {failure.host})")
    return lines


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


def _what(failure: Failure) -> str:
    # An error of tfdist's own explains itself; of others the class says half of it.
    if failure.type and failure.kind == "exception":
        return f"{failure.type}: {failure.message}"
    return failure.message


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 3] + "..."
