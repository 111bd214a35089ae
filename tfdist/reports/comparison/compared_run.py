"""One run as it is compared with others, read from its directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.config.yaml_document import parse_document
from tfdist.errors import ConfigError, RunDirError
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics, read_metrics
from tfdist.reports.ledger.account import Account
from tfdist.reports.ledger.account_reader import read_account
from tfdist.reports.status.run_status import RunStatus
from tfdist.reports.status.status_reader import read_status
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import open_regular

MOST_SETTINGS = 2000
_MOST_METRICS_BYTES = 8 << 20
_LEFT_OUT = ("name",)


@dataclass(frozen=True)
class ComparedRun:
    """One run.

    Attributes:
        status: What it is doing, or how it ended.
        epochs: The metrics of its epochs.
        account: Where its time went; None where its ledger cannot be read.
        settings: Dotted key of its config -> the value in short; empty where there is none, or it cannot be read.
    """

    status: RunStatus
    epochs: tuple[EpochMetrics, ...]
    account: Account | None
    settings: Mapping[str, str]


def read_compared(run_dir: str | Path) -> ComparedRun:
    """Reads a run directory.

    Raises:
        RunDirError: The directory is not a run's, or cannot be read.
    """
    run = RunDir(Path(run_dir))
    status = read_status(run.path)
    return ComparedRun(status, read_metrics(run.metrics_file, _MOST_METRICS_BYTES), _account(run), _settings(run))


def _account(run: RunDir) -> Account | None:
    try:
        return read_account(run.path)[1]
    except RunDirError:
        return None


def _settings(run: RunDir) -> dict[str, str]:
    try:
        with open_regular(run.config_file) as file:
            content = parse_document(run.config_file, file).content
    except (OSError, ConfigError):
        return {}
    found: dict[str, str] = {}
    for key, value in _leaves(content, ""):
        if len(found) == MOST_SETTINGS:
            break
        if key not in _LEFT_OUT:
            found[key] = value
    return found


def _leaves(content: Mapping[Any, Any], above: str) -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", "null" if value is None else str(value)
