"""Closing report: what the launcher prints of a job that failed or was stopped, or of a script at its end."""

from __future__ import annotations

import re
import sysconfig
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfdist.launch.gpus.worker_choice import ONE_PROCESS
from tfdist.launch.peers.messages import Restart
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.channel_protocol import CALLED
from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir
from tfdist.text import format_count, format_duration, format_ranges

_MESSAGE_CHARACTERS = 300
_MOST_OTHERS = 16
"""Failures that are named with their hosts, besides the first."""

_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line \d+.*\n(?:    .*\n)*')

_STACK = re.compile(
    r'(?P<head>^(?:Traceback \(most recent call last\)|Thread .*):\n)(?P<frames>(?:  File ".*\n(?:    .*\n)*)+)', re.M
)
_INSTALLED = ("/site-packages/", "/dist-packages/", "/__autograph_generated_file", f"{Path(__file__).parents[2]}/")
_REST = "(the frames of tfdist, Keras and TensorFlow are in the log, and shown with --verbose)\n"
_STEP = re.compile(r"step-(\d+)(?:\.\d+)?")
_FIT = re.compile(r"fit-(\d+)")
_MARKER = "checkpoint.json"


def render_report(result: RunResult, *, verbose: bool = False, worker_per_gpu: bool = False) -> str:
    """The report, without a newline at its end; empty when the job succeeded or its scripts chose its exit code.

    Args:
        worker_per_gpu: Whether tfdist itself has chosen to start several workers.
    """
    if result.stop is not None:
        lines = [f"stopped: {result.stop.why}; all workers have ended"]
        lines += [f"  ended where they were, not after the same step: {result.advice}"] if result.advice else []
        meanwhile = result.failed_meanwhile()
        lines += [f"  {result.stop.advice}"] if result.stop.advice else []
        lines += [f"  meanwhile {failure.who} failed: {_short(failure)}" for failure in meanwhile]
        return "\n".join(lines)
    if not result.failures:
        return ""
    advice = [f"  not restarted: {result.advice}"] if result.advice else []
    if worker_per_gpu and result.failures[0].kind == "usage":
        # What several workers do not have may be had in one process.
        advice.append(f"  one worker was started for each GPU; {ONE_PROCESS}")
    return "\n".join([render_failures(result.failures, verbose=verbose), *advice])


def render_failures(failures: Sequence[Failure], *, verbose: bool = False) -> str:
    """Returns what happened to the workers of an attempt, without a newline at its end.

    Args:
        failures: One or more, the first one first.
    """
    first, *others = failures
    return "\n".join([*_first(first, verbose), *_others(first, others)])


def render_restart(result: RunResult, restart: Restart, *, verbose: bool = False) -> str:
    """The report of an attempt that is followed by another one, without a newline at its end."""
    return f"{render_report(result, verbose=verbose)}\nall workers start again in {restart.delay:g} s ({restart.why})"


def failure_fields(result: RunResult) -> dict[str, Any]:
    """Returns what the record of a report has besides its text: what happened, and the first failure in parts."""
    if result.stop is not None:
        return {"event": "stopped", "level": "warning", "exit_code": result.code}
    if not result.failures:
        return {}
    first = result.failures[0]
    return {
        "event": "failed",
        "level": "error",
        "exit_code": result.code,
        "worker": first.index,
        "worker_host": first.host,
        "failure": first.kind,
        "error": first.type or None,
        "step": first.step,
        "log": first.log or None,
    }


def _first(failure: Failure, verbose: bool) -> list[str]:
    explained = failure.kind in ("usage", "data")
    lines = [f"error: {' '.join(filter(None, (failure.who, 'failed', failure.when)))}: {failure.what}"]
    if failure.traceback and (verbose or not explained):
        shown = failure.traceback if verbose else shown_traceback(_relevant_stacks(failure), failure.what)
        lines.append(textwrap.indent(shown.rstrip(), "  "))
    elif failure.last_lines and not explained:
        lines.append("  the end of its log:")
        lines += [f"    {line}" for line in failure.last_lines]
    if failure.log:
        lines.append(f"  its log: {failure.log} (on {failure.host})")
    return lines


def _relevant_stacks(failure: Failure) -> str:
    """Of a hang's stacks, the main thread's and those that run the user's functions; the log has all of them."""
    if failure.kind != "hang":
        return failure.traceback
    main, *others = failure.traceback.split("\nThread ")
    called = [thread for thread in others if thread.partition(":\n")[0].endswith(CALLED)]
    return "\nThread ".join([main, *called])


def _others(first: Failure, failures: Sequence[Failure]) -> list[str]:
    same = [failure for failure in failures if failure.what == first.what]
    after = [failure for failure in failures if failure.what != first.what]
    lines = [f"  the same on {_names(same)}"] if same else []
    if after:
        lines.append("  after it, and most likely because of it:")
        lines += [f"    {failure.who}: {_short(failure)}" for failure in after[:_MOST_OTHERS]]
        lines += [f"    and {_names(after[_MOST_OTHERS:])}"] if len(after) > _MOST_OTHERS else []
    return lines


def _names(failures: Sequence[Failure]) -> str:
    """Their workers, of many the indices alone."""
    if len(failures) <= _MOST_OTHERS:
        return ", ".join(failure.who for failure in failures)
    return f"{len(failures)} more: workers {format_ranges(sorted(failure.index for failure in failures))}"


def _short(failure: Failure) -> str:
    return failure.what_in_line(_MESSAGE_CHARACTERS)


def shown_traceback(text: str, said: str = "") -> str:
    """A traceback, or the stack of a thread, with the user's frames alone; as it is where it has none of these.

    Args:
        text: As Python prints it, maybe with the exceptions that led to it.
        said: What the report has said of the exception already, which is not repeated.
    """
    text = f"{text.rstrip()}\n"
    users = _STACK.sub(lambda stack: _users_part(stack["head"], stack["frames"]), text)
    if not _FRAME.search(users):
        return text
    users = users.removesuffix(f"{said.rstrip()}\n") if said else users
    return users + (_REST if users.count('  File "') < text.count('  File "') else "")


def _users_part(head: str, frames: str) -> str:
    users = "".join(frame[0] for frame in _FRAME.finditer(frames) if _is_users(frame["file"]))
    return head + users if users else ""


def _is_users(file: str) -> bool:
    if file.startswith("<frozen "):
        return False
    return not any(part in file for part in _INSTALLED) and not file.startswith(sysconfig.get_path("stdlib"))


def closing_line(result: RunResult, seconds: float, run: RunDir) -> str:
    """The line, without a newline; empty for a job that failed or was stopped, of which the failure report tells.

    Args:
        seconds: How long it took, from the start of its workers on.
    """
    if result.failures or result.stop is not None:
        return ""
    how = "done in" if result.code == 0 else f"the script ended with exit code {result.code} after"
    steps = f", {format_count(result.step, 'step')}" if result.step else ""
    return f"tfdist: {how} {format_duration(seconds)}{steps}; logs in {run.logs_dir}"


def saved_line(run: RunDir, step: int, *, is_kept: bool) -> str:
    """The line of the report.

    Args:
        run: The run directory, on the chief's machine.
        step: The step that the training had come to, over all fits of a script.
        is_kept: Whether the run makes checkpoints by itself.
    """
    newest = _newest(run)
    if newest is not None:
        fit, saved = newest
        of_fit = f" of fit {fit}" if fit > 1 else ""
        return f"saved: step {saved}{of_fit}, in {run.checkpoints_dir}; --run-dir {run} --resume auto goes on there"
    if not is_kept:
        return (
            f"nothing of its {step} steps is saved: a script is, where it is started with --resume auto, "
            "--max-restarts or --checkpoint-every"
        )
    return f"nothing of its {step} steps is saved: it came to no checkpoint; --checkpoint-every 100, or 1m, makes more"


def _newest(run: RunDir) -> tuple[int, int] | None:
    """The last fit that has a whole checkpoint, from 1, and the step of its newest one; None where there is none."""
    folders = {1: run.checkpoints_dir}
    for entry in _entries(run.checkpoints_dir):
        match = _FIT.fullmatch(entry.name)
        if match:
            folders[int(match[1])] = entry
    for fit, folder in sorted(folders.items(), reverse=True):
        steps = [int(match[1]) for entry in _entries(folder) if (match := _STEP.fullmatch(entry.name))
                 and (entry / _MARKER).is_file()]  # fmt: skip
        if steps:
            return fit, max(steps)
    return None


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError:
        return
