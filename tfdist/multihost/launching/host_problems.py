"""The problems of hosts before anything starts: each cause once, with the hosts that have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfdist.errors import FormingError, TfdistError, UsageError

_SHOWN = 8


@dataclass(frozen=True)
class HostProblem:
    """The reason why a launch cannot use a host, or has lost it.

    Attributes:
        what: What is wrong, as it follows the host's name: "refuses the connection".
        remedy: What to do; empty where `what` says it.
        code: The exit code of `tfdist` that belongs to it.
    """

    what: str
    remedy: str = ""
    code: int = FormingError.exit_code


def launch_error(problems: Mapping[str, HostProblem], of: int) -> TfdistError:
    """The error of a launch that cannot start.

    Args:
        problems: Host -> what is wrong with it; at least one.
        of: How many hosts there are in all.
    """
    common = Counter(problem.what for problem in problems.values())
    grouped: dict[tuple[str, str], list[str]] = {}
    for host, problem in problems.items():
        # What differs by the host's own name alone is the same, unless it is the same to the letter for several.
        is_common = common[problem.what] > 1
        what = problem.what if is_common else problem.what.replace(host, "{host}")
        grouped.setdefault((what, problem.remedy.replace(host, "{host}")), []).append(host)
    lines = [_line(what, remedy, hosts) for (what, remedy), hosts in grouped.items()]
    begins = f"{len(problems)} of {of} hosts cannot be used, and nothing was started:"
    text = f"{lines[0]} Nothing was started." if len(lines) == 1 else "\n  ".join([begins, *lines])
    # A host that is out of reach is the graver one: usage can be mended from here.
    kind = UsageError if all(problem.code == UsageError.exit_code for problem in problems.values()) else FormingError
    return kind(text)


def _line(what: str, remedy: str, hosts: list[str]) -> str:
    end = f" {remedy.replace('{host}', hosts[0])}." if remedy else ""
    # One sentence for many: "h1, h2: refuses the connection."
    separator = ":" if len(hosts) > 1 else ""
    return f"{names(hosts)}{separator} {what.replace('{host}', hosts[0])}.{end}"


def names(hosts: Iterable[str]) -> str:
    """Hosts for a message, of many the first."""
    listed = list(hosts)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
