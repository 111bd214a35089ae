"""Folder of a selftest's reports: found usable before minutes of runs, and written at the end."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import UsageError
from tfdist.rundir import atomic_files
from tfdist.selftest.reports.selftest_markdown import to_markdown
from tfdist.selftest.reports.selftest_report import SelftestReport

_OPTION = "--output"


@dataclass(frozen=True)
class ReportFolder:
    """A new folder, which is made when the reports are written.

    Attributes:
        path: Where it will be.

    Raises:
        UsageError: It exists and is not an empty directory, or cannot be made.
    """

    path: Path

    def __post_init__(self) -> None:
        # Unlike those of Path, these have no error for a directory that is closed to this user.
        if os.path.lexists(self.path) and not self._is_empty():
            raise UsageError(
                f"{_OPTION} expects a new or an empty directory: an earlier report is not replaced. "
                f"Received: {self.path}"
            )
        parent = self.path.absolute()
        while not os.path.isdir(parent) and parent != parent.parent:
            parent = parent.parent
        if not os.access(parent, os.W_OK | os.X_OK):
            raise UsageError(
                f"{_OPTION} expects a directory that this user can make. Received: {self.path}, and {parent} cannot be "
                "written to. Choose another place."
            )

    @classmethod
    def chosen(cls, path: str | None, host: str, began: float) -> ReportFolder:
        """The folder that a user asked for; by default one in the working directory, named after host and time."""
        if path is not None:
            return cls(Path(path))
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", host) or "host"
        return cls(Path(f"selftest-{name}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(began))}"))

    def write(self, report: SelftestReport) -> tuple[Path, Path]:
        """Writes both reports; returns the file of markdown and that of JSON. Raises `RunDirError` if it cannot."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise atomic_files.write_error(self.path, error, _OPTION) from error
        markdown, document = self.path / "report.md", self.path / "report.json"
        atomic_files.write_text(markdown, to_markdown(report), named_by=_OPTION)
        atomic_files.write_json(document, report.to_json(), named_by=_OPTION)
        return markdown, document

    def _is_empty(self) -> bool:
        try:
            return os.path.isdir(self.path) and not os.listdir(self.path)
        except OSError:
            return False
