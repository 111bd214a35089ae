"""The objects of a job as YAML that every parser reads alike."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from tfdist.multihost.kubernetes.indexed_job import indexed_job
from tfdist.multihost.kubernetes.jobset import jobset
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.multihost.kubernetes.pod_naming import Kind
from tfdist.multihost.kubernetes.trainjob import trainjob
from tfdist.versions import VERSION

_OBJECTS: Mapping[Kind, Callable[[ManifestOptions], list[dict[str, Any]]]] = {
    "job": indexed_job,
    "jobset": jobset,
    "trainjob": trainjob,
}
FIRST_WORDS = "# Made by tfdist"
"""By which a manifest is known from other files."""
_PLAIN = re.compile(r"/?[A-Za-z][A-Za-z0-9._/-]*")
_OTHER_MEANING = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}


def objects(options: ManifestOptions) -> list[dict[str, Any]]:
    """The objects of a job, in the order in which they are to be made."""
    return _OBJECTS[options.kind](options)


def manifest_text(options: ManifestOptions, command: Sequence[str]) -> str:
    """The manifest of a job, with the command that makes it again in a comment.

    Args:
        options: The job's.
        command: What follows `tfdist manifest`.
    """
    lines = [
        f"{FIRST_WORDS} {VERSION}. Again:",
        f"#     tfdist manifest {_on_one_line(shlex.join(command))}",
        "# Start it with `kubectl apply -f FILE`; end it with `kubectl delete -f FILE`.",
    ]
    documents = yaml.dump_all(
        objects(options), Dumper=_Dumper, sort_keys=False, explicit_start=True, width=float("inf"), allow_unicode=True
    )
    return "\n".join(lines) + f"\n{documents}"


def _on_one_line(text: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Dumper(yaml.SafeDumper):
    """Quotes what only PyYAML takes for text: kubectl's parser reads 1e3 as a number and `y` as a truth value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _OTHER_MEANING
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _text)
