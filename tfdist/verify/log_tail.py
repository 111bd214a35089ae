"""Tail of a worker's log: its last line, for the report of a run that failed."""

from __future__ import annotations

from pathlib import Path

from tfdist.rundir.regular_files import read_tail
from tfdist.tf_log_filter import is_tf_log_line

TAIL_BYTES = 1 << 20


def last_line(log: Path, tail_bytes: int = TAIL_BYTES) -> str:
    """The last line of a worker's log, without TensorFlow's own messages; empty where it has no log.

    Args:
        log: Its log file.
        tail_bytes: How much of the end is searched: a long run's log does not fit into memory.
    """
    try:
        content, skipped = read_tail(log, tail_bytes)
    except OSError:
        return ""
    lines = content.splitlines()
    whole = lines[1:] if skipped and len(lines) > 1 else lines
    said = [line for line in whole if line.strip() and not is_tf_log_line(line)]
    return said[-1].decode(errors="replace").strip() if said else ""
