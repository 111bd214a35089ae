"""The versions of TensorFlow and Keras that tfdist is tested with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class VersionRange:
    """A range of versions.

    Attributes:
        package: The package's name.
        first: The first tested version, such as `2.21`.
        beyond: The first that is not, such as `2.22`.
    """

    package: str
    first: str
    beyond: str

    def __str__(self) -> str:
        return f"{self.package}>={self.first},<{self.beyond}"

    def includes(self, version: str) -> bool:
        """Returns whether `version` lies in the range; what follows its second number does not count."""
        return _numbers(self.first) <= _numbers(version) < _numbers(self.beyond)

    def untested(self, version: str) -> str:
        """The beginning of a warning about a version outside the range."""
        return f"{self.package} {version} is not tested with tfdist (tested: from {self.first}, below {self.beyond})"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


TENSORFLOW = VersionRange("tensorflow", "2.19", "2.22")
KERAS = VersionRange("keras", "3.12", "3.16")


def untested(versions: Mapping[str, str]) -> list[str]:
    """Returns what is to be said of each of these versions, by their packages, that lies outside of its range."""
    pairs = [(tested, versions[tested.package]) for tested in (TENSORFLOW, KERAS)]
    return [tested.untested(version) for tested, version in pairs if not tested.includes(version)]


def remedy() -> str:
    """Returns how tested versions are installed."""
    return f"Install tested ones: pip install '{TENSORFLOW}' '{KERAS}'."
