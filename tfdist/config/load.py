"""Loads a config: from a YAML file to a checked `RunConfig` with absolute paths, and back to YAML."""

from __future__ import annotations

import dataclasses
import functools
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tfdist.config.data_sections import FORMATS, SourceConfig
from tfdist.config.field_errors import FieldError, FieldErrors, dotted, errors_of
from tfdist.config.schema import RunConfig
from tfdist.config.section import build, build_parts
from tfdist.config.yaml_document import Document, Dumper, read_document
from tfdist.errors import ConfigError
from tfdist.url_schemes import fault_as_local, is_url

_VERSIONS = "versions"
"""The key in a run directory's config for the package versions of the run; ignored when that config is loaded."""


def load_config(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> RunConfig:
    """Reads and checks a config.

    Args:
        path: The YAML file. File names in it are relative to it, and absolute in the result.
        overrides: `KEY=VALUE` each, KEY dotted and VALUE in YAML; file names are relative to the working directory.

    Raises:
        ConfigError: The file cannot be read, or a key is unknown, missing, of a wrong type or impossible. The text
            names the line and the dotted key, what was expected, what was received and the nearest valid key.
    """
    return build_config(read_config(path, overrides))


def read_config(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Document:
    """Reads a config with its overrides, and checks nothing in it; see `load_config`.

    Raises:
        ConfigError: The file cannot be read as YAML, or an override is none.
    """
    fault = fault_as_local(path, "The name of a config", "Copy it to this machine.")
    if fault is not None:
        raise ConfigError(fault)
    return functools.reduce(Document.with_override, overrides, read_document(Path(path)))


def build_config(document: Document) -> RunConfig:
    """Checks the content of a config that has been read; see `load_config`."""
    try:
        return build(RunConfig, _content_of(document))
    except (FieldError, FieldErrors) as error:
        raise located(error, document) from None


@dataclass(frozen=True)
class ConfigParts:
    """A config as far as it is valid.

    Attributes:
        document: The config file with its overrides.
        values: The values of all dotted keys that are valid, whole sections among them.
        problems: What is wrong with the others.
    """

    document: Document
    values: Mapping[str, Any]
    problems: tuple[FieldError, ...]


def load_parts(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> ConfigParts:
    """Like `load_config`, but a mistake in a key is no exception, so that the other keys can be checked further.

    Raises:
        ConfigError: The file cannot be read as YAML, or an override is none.
    """
    document = read_config(path, overrides)
    values, problems = build_parts(RunConfig, _content_of(document))
    return ConfigParts(document, values, tuple(problems))


def located(error: FieldError | FieldErrors, document: Document) -> ConfigError:
    """An error of `build` with the line, or the override, of each key that is wrong."""
    return ConfigError(listed(document, [(problem.key, str(problem)) for problem in errors_of(error)]))


def listed(document: Document, mistakes: Sequence[tuple[str, str]]) -> str:
    """The text of an error with the mistakes of a config, one a line where there are several.

    Args:
        mistakes: The dotted key of each, and its text.
    """
    lines = [f"{document.where(key)}: {text}" for key, text in mistakes]
    return lines[0] if len(lines) == 1 else "\n  ".join([f"{document.path} has {len(lines)} mistakes:", *lines])


def _content_of(document: Document) -> dict[str, Any]:
    content = {"name": _default_name(document.path), **_with_absolute_paths(document)}
    content.pop(_VERSIONS, None)
    return content


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The config in YAML's types, with every default filled in."""
    return _plain(dataclasses.asdict(config))


def load_source(document: Document) -> SourceConfig:
    """Checks a file that is one section of data, such as `data.validation` has it; its paths are relative to it.

    Raises:
        ConfigError: A key is unknown, missing, of a wrong type or impossible.
    """
    content = dict(document.content)
    if str(content.get("format")) in FORMATS:
        content = _source_with_absolute_paths(document, "", content)
    try:
        return build(SourceConfig, content)
    except (FieldError, FieldErrors) as error:
        raise located(error, document) from None


def source_to_dict(section: SourceConfig) -> dict[str, Any]:
    """A section of data in YAML's types, with every default filled in."""
    content: dict[str, Any] = _plain(dataclasses.asdict(section))
    return content


def shared_settings(config: RunConfig) -> dict[str, Any]:
    """Returns what must be the same on every host of a job, by dotted key: everything but the name, the devices and the
    paths.

    Values have JSON's types, as launchers send them to one another; values of YAML's other types, such as dates, become
    their text.
    """
    content = to_dict(config)
    for name in ("name", "devices"):
        del content[name]
    del content["checkpoint"]["directory"]
    del content["model"]["weights"]
    for source in (content["data"]["train"], content["data"]["validation"]):
        for path in FORMATS[source["format"]].PATHS if source else ():
            del source[path]
    if content["fit"]["distill"]:
        content["fit"]["distill"]["teacher"] = _without_path(content["fit"]["distill"]["teacher"])
    return {key: _in_json(value) for key, value in _entries(content, "")}


def _without_path(teacher: Any) -> Any:
    """A teacher without the place where it lies, which may differ between hosts."""
    return "path" if isinstance(teacher, str) else {**teacher, **({"outputs": "path"} if "outputs" in teacher else {})}


def dump_yaml(config: RunConfig, versions: Mapping[str, str] | None = None) -> str:
    """The config as YAML that `load_config` reads back, with every default filled in.

    Args:
        versions: Package -> version, to be written with it.
    """
    content = to_dict(config) | ({_VERSIONS: dict(versions)} if versions else {})
    return yaml.dump(
        content, Dumper=Dumper, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True
    )


def _default_name(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "run"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _in_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _in_json(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_in_json(entry) for entry in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _entries(content: Mapping[str, Any], section: str) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        key = dotted(section, str(name))
        if isinstance(value, Mapping) and value:
            yield from _entries(value, key)
        else:
            yield key, value


def _with_absolute_paths(document: Document) -> dict[str, Any]:
    """The document's content with absolute paths. Values of wrong types stay as they are, for the check to report."""
    content = dict(document.content)
    checkpoint = content.get("checkpoint")
    if isinstance(checkpoint, Mapping) and "directory" in checkpoint:
        base = _base(document, "checkpoint.directory")
        content["checkpoint"] = {**checkpoint, "directory": _absolute(checkpoint["directory"], base, is_pattern=False)}
    model = content.get("model")
    if isinstance(model, Mapping) and "weights" in model:
        base = _base(document, "model.weights")
        content["model"] = {**model, "weights": _absolute(model["weights"], base, is_pattern=False)}
    fit = content.get("fit")
    if isinstance(fit, Mapping) and isinstance(fit.get("distill"), Mapping):
        content["fit"] = {**fit, "distill": _distill_with_absolute_paths(document, fit["distill"])}
    data = content.get("data")
    if not isinstance(data, Mapping):
        return content
    sections = dict(data)
    for name in ("train", "validation"):
        section = sections.get(name)
        if isinstance(section, Mapping) and str(section.get("format")) in FORMATS:
            sections[name] = _source_with_absolute_paths(document, f"data.{name}", section)
    return content | {"data": sections}


def _distill_with_absolute_paths(document: Document, section: Mapping[str, Any]) -> dict[str, Any]:
    content = dict(section)
    teacher, key = content.get("teacher"), "fit.distill.teacher"
    if isinstance(teacher, Mapping) and "outputs" in teacher:
        base = _base(document, f"{key}.outputs")
        content["teacher"] = {**teacher, "outputs": _absolute(teacher["outputs"], base, is_pattern=False)}
    elif isinstance(teacher, str):
        content["teacher"] = _absolute(teacher, _base(document, key), is_pattern=False)
    return content


def _source_with_absolute_paths(document: Document, key: str, section: Mapping[str, Any]) -> dict[str, Any]:
    content = dict(section)
    for name in FORMATS[str(section["format"])].PATHS:
        if name in content:
            base = _base(document, dotted(key, name))
            content[name] = _absolute(content[name], base, is_pattern=name == "files")
    return content


def _base(document: Document, key: str) -> Path:
    return Path.cwd() if document.is_overridden(key) else document.path.parent.resolve()


def _absolute(value: Any, base: Path, is_pattern: bool) -> Any:
    if isinstance(value, list):
        return [_absolute(entry, base, is_pattern) for entry in value]
    if not isinstance(value, str) or not value or is_url(value):
        return value
    path = os.path.expanduser(value)
    directory = glob.escape(str(base)) if is_pattern else str(base)
    return os.path.normpath(os.path.join(directory, path))
