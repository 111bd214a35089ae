"""Claim on a folder of checkpoints: the latest start of an elastic job has it, and an earlier one publishes no more.

A scheduler may start a chief anew while the first one is cut off and goes on for a while. Each start therefore takes
the next number with a file of its own, and looks for greater ones before it makes a checkpoint whole. Where the store
creates a file on a condition, as `s3://` does, two starts at once get two numbers; on others `--min-workers` keeps two
from having enough workers.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tfdist import bounded_json
from tfdist.checkpoint.checkpoint_files import StoredCheckpoint, error_when_out_of_reach, opened
from tfdist.errors import RunDirError, StoreError
from tfdist.rundir import atomic_files
from tfdist.storage.object_path import ObjectPath
from tfdist.storage.object_store import NoAnswerError
from tfdist.url_schemes import is_bucket

CLAIMS = "generations"
"""The folder of the claims, among the checkpoints."""

_DIGITS = 8
_MOST_BYTES = 1 << 16
_ATTEMPTS = 100
"""The number of tries: where somebody else has taken a number meanwhile, the next one is tried."""


class SupersededError(RunDirError):
    """A later start of the run has its checkpoints."""


CreateIfAbsent = Callable[[str, bytes], bool]


class GenerationClaim:
    """One start's claim.

    Args:
        folder: That of the checkpoints, as their store has it.
        job: The start's name, different for every one.
        create: Creates a file, by its path or URL, and returns whether it was not there.
    """

    def __init__(self, folder: Path | ObjectPath, job: str, create: CreateIfAbsent) -> None:
        self._checkpoints = folder
        self._folder: Any = folder / CLAIMS
        self._job = job
        self._create = create
        self._number = 0

    @property
    def number(self) -> int:
        """The number that this start has taken; 0 before."""
        return self._number

    def take(self) -> int:
        """Takes the next number, unless the last one is this start's already; returns it.

        Raises:
            RunDirError: The folder cannot be written.
        """
        with _writing(self._folder):
            last = self._greatest()
            if last and self._is_own(last):
                self._number = last
                return last
            for number in range(last + 1, last + 1 + _ATTEMPTS):
                content = json.dumps({"job": self._job}).encode()
                if self._create(str(self._file(number)), content):
                    self._number = number
                    return number
        raise RunDirError(
            f"Other starts of this run take one number after another in {self._folder}. Expected one start at a time. "
            "Look for what starts this run again and again."
        )

    def has_others(self) -> bool:
        """Returns whether a start of the run has claimed the folder.

        Raises:
            RunDirError: It cannot be read.
        """
        with error_when_out_of_reach(self._checkpoints):
            return self._greatest() > 0

    def check(self) -> None:
        """Checks that no later start has taken one.

        Raises:
            SupersededError: One has.
            RunDirError: The folder cannot be read.
        """
        with error_when_out_of_reach(self._checkpoints):
            greatest = self._greatest()
        if greatest > self._number:
            raise SupersededError(
                f"This run has been started again ({greatest} in {self._folder}, and this start is {self._number}), "
                "and the later start has its checkpoints. Expected one start at a time. This one makes no more of "
                "them: end it, the later one goes on."
            )

    def _file(self, number: int) -> Any:
        return self._folder / f"{number:0{_DIGITS}}.json"

    def _is_own(self, number: int) -> bool:
        try:
            with opened(self._file(number)) as content:
                claim = bounded_json.parse(content.read(_MOST_BYTES + 1), _MOST_BYTES)
        except ValueError:
            return False
        return isinstance(claim, dict) and claim.get("job") == self._job

    def _greatest(self) -> int:
        try:
            numbers = [entry.name.removesuffix(".json") for entry in self._folder.iterdir()]
        except FileNotFoundError:
            return 0
        return max((int(number) for number in numbers if number.isascii() and number.isdigit()), default=0)


def by_generation(entries: Iterable[StoredCheckpoint]) -> list[StoredCheckpoint]:
    """The checkpoints of a claimed folder, the latest first: those of a later start before all of an earlier one.

    A start looks for later claims before it makes a checkpoint whole, and may be cut off between the two for as long as
    its store lets it try. What it then makes whole is no longer the run's.

    Raises:
        RunDirError: One cannot be reached.
        StoreError: Their store does not answer at the moment.
    """
    return sorted(entries, key=lambda entry: (entry.generation, entry), reverse=True)


def claim_on(folder: Path | ObjectPath, job: str) -> GenerationClaim:
    """The claim of a start on a folder of checkpoints; it has no number yet.

    Raises:
        RunDirError: The folder is refused.
        StoreError: Its store does not answer at the moment.
    """
    return GenerationClaim(folder, job, _creator(folder))


def _creator(folder: Path | ObjectPath) -> CreateIfAbsent:
    if isinstance(folder, Path):
        return _create_locally
    if is_bucket(str(folder)):
        from tfdist.storage.conditional_create import conditional_creator

        creator = conditional_creator(str(folder))
        with error_when_out_of_reach(folder):
            honours = creator.honours_condition(str(folder / CLAIMS))
        if honours:
            return creator.create_if_absent
    place: ObjectPath = folder / CLAIMS

    def write(url: str, content: bytes) -> bool:
        (place / url.rpartition("/")[2]).write_bytes(content)
        return True

    return write


def _create_locally(path: str, content: bytes) -> bool:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def _writing(folder: Any) -> Iterator[None]:
    try:
        yield
    except NoAnswerError as error:
        said = error.strerror or error
        raise StoreError(f"{folder} cannot be reached: {said}. Start it again when it can be.") from error
    except OSError as error:
        raise atomic_files.write_error(str(folder), error) from error
