"""Config agreement: whether the launchers of one job were given the same config, and options that fit together."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from tfdist.errors import FormingError

_MAX_SHOWN = 5


def terms_of(
    settings: Mapping[str, Any] | None, options: Mapping[str, str], kernels: str | None = None
) -> dict[str, Any]:
    """Returns what the chief's launcher sends to the others, which have to agree with it.

    Args:
        settings: The `shared_settings` of its config; None for a script or a module.
        options: Option -> its value, on its command line.
        kernels: Those of its workers; None where TensorFlow decides. See `agreed_kernels`.
    """
    return {"settings": settings, "options": options, "kernels": kernels}


def check_agreement(terms: Mapping[str, Any], settings: Mapping[str, Any] | None, options: Mapping[str, str]) -> None:
    """Compares what this launcher was given with what the chief's launcher sent.

    Args:
        terms: What came from the chief's launcher.
        settings: The `shared_settings` of this launcher's config; None for a script or a module.
        options: Option -> its value, on this launcher's command line.

    Raises:
        FormingError: They differ, or `terms` is not what this version sends.
    """
    chiefs, chiefs_options = terms.get("settings"), terms.get("options")
    if not isinstance(chiefs, Mapping | None) or not isinstance(chiefs_options, Mapping):
        raise FormingError(
            f"Expected the config and the options of the chief's launcher. Received: {terms!r:.500}. Install the same "
            "version of tfdist on every host."
        )
    check_settings(settings, chiefs)
    check_options(options, chiefs_options)


def check_settings(mine: Mapping[str, Any] | None, chiefs: Mapping[str, Any] | None) -> None:
    """Compares this launcher's config with that of the chief's launcher, before any worker starts.

    Workers that train for different numbers of epochs would wait for one another without end, and different models
    cannot be averaged.

    Args:
        mine: The `shared_settings` of this launcher's config; None for a script or a module.
        chiefs: Those of the chief's launcher, sent as JSON.

    Raises:
        FormingError: They differ.
    """
    host = socket.gethostname()
    here, there = _texts(mine), _texts(chiefs)
    keys = [key for key in here | there if here.get(key) != there.get(key)]
    if not keys:
        return
    if mine is None or chiefs is None:
        differing = [f"  {_kind(mine)} on {host}, {_kind(chiefs)} on the chief's host"]
    else:
        differing = [_difference(key, here, there, host) for key in keys]
    more = [f"  and {len(differing) - _MAX_SHOWN} more"] if len(differing) > _MAX_SHOWN else []
    raise FormingError(
        "\n".join(
            (
                f"The launchers of this job do not agree: {host} is to train something else than the chief's host.",
                *differing[:_MAX_SHOWN],
                *more,
                "Expected the same config and the same --set on every host.",
            )
        )
    )


def check_options(mine: Mapping[str, str], chiefs: Mapping[str, str]) -> None:
    """Compares the options that decide which collectives the workers run, in which they would wait for one another.

    Those that decide how they round are compared, too.

    Args:
        mine: Option -> its value, on this launcher's command line.
        chiefs: Those of the chief's launcher.

    Raises:
        FormingError: They differ.
    """
    host = socket.gethostname()
    differing = [
        _difference(name, mine, chiefs, host) for name in {**mine, **chiefs} if mine.get(name) != chiefs.get(name)
    ]
    if differing:
        raise FormingError(
            "\n".join(
                (
                    f"The launchers of this job do not agree: {host} was given other options than the chief's host.",
                    *differing,
                    "Expected the same on every host.",
                )
            )
        )


def _difference(name: str, mine: Mapping[str, str], chiefs: Mapping[str, str], host: str) -> str:
    return f"  {name}: {mine.get(name, 'nothing')} on {host}, {chiefs.get(name, 'nothing')} on the chief's host"


def _kind(settings: Mapping[str, Any] | None) -> str:
    return "a script" if settings is None else "a config"


def _texts(settings: Mapping[str, Any] | None) -> dict[str, str]:
    """Values as JSON, which turns tuples into lists: the chief's have been through it."""
    return {key: json.dumps(value, sort_keys=True, default=str) for key, value in (settings or {}).items()}
