"""Job terms: what all launchers of one job must have alike, its config, options and kernels, and their agreement."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Mapping
from typing import Any, cast

from tfdist.errors import FormingError
from tfdist.launch.environment import choose_kernels_here
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.worker.kernel_choice import NAMES, VARIABLE, KernelChoice, KernelName

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


def agreed_kernels(mine: KernelChoice, terms: Mapping[str, Any]) -> KernelChoice:
    """The kernels of this host's workers, which are those of the chief's host.

    Every replica updates its own copy of the weights, so that kernels that round otherwise would let the copies drift
    apart where an update multiplies matrices. Hosts with other processors therefore do as the chief's does. What the
    user's environment says on one host alone is refused.

    Args:
        mine: What this host would choose by itself.
        terms: What came from the chief's launcher; its kernels are under `kernels`.

    Raises:
        FormingError: The environment here contradicts them, or the chief's launcher sent something else.
    """
    theirs: Any = terms.get("kernels")
    if theirs is not None and not (isinstance(theirs, str) and theirs in NAMES):
        raise FormingError(
            f"Expected the kernels of the chief's host: {', '.join(NAMES)} or nothing. Received: {theirs!r:.100}. "
            "Install the same version of tfdist on every host."
        )
    if mine.kernels is None or theirs in (None, mine.kernels):
        return mine
    if mine.is_users:
        raise FormingError(
            "The launchers of this job do not agree on the kernels by which workers compute on the CPU:\n"
            f"  {NAMES[mine.kernels]} on {socket.gethostname()}, as {mine.reason}\n"
            f"  {NAMES[theirs]} on the chief's host\n"
            f"Expected the same on every host. Set {VARIABLE} on all of them or on none, or give all of them the same "
            "--kernels."
        )
    chiefs = cast(KernelName, theirs)
    return dataclasses.replace(mine, kernels=chiefs, setting=chiefs, reason="the chief's host computes by them")


class JobTerms:
    """The terms of one job on this host.

    Attributes:
        kernels: By which kernels the workers that are started here compute on the CPU.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self.kernels: KernelChoice = choose_kernels_here(spec.kernels, spec.environ)

    def offer(self) -> dict[str, Any]:
        """Returns what the chief's launcher sends to the others."""
        # Imported here: a job of one launcher has no other one to agree with.

        return terms_of(*self._in_common(), self.kernels.kernels)

    def accept(self, theirs: Mapping[str, Any]) -> None:
        """Agrees with what the chief's launcher has sent, and takes its kernels.

        Raises:
            FormingError: This launcher was given something else.
            TfdistError: What `spec.preflight` raises.
        """

        check_agreement(theirs, *self._in_common())
        self.kernels = agreed_kernels(self.kernels, theirs)
        self._spec.preflight()

    def _in_common(self) -> tuple[dict[str, Any] | None, dict[str, str]]:
        return self._settings(), self._spec.options_in_common()

    def _settings(self) -> dict[str, Any] | None:
        """Returns what all launchers must have alike in their configs; None without a config."""
        if self._spec.config is None:
            return None
        from tfdist.config.load import shared_settings

        return shared_settings(self._spec.config)
