"""Job terms: what the launchers of one job must have in common, as this one has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdist.launch.environment import choose_kernels_here
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.worker.kernel_choice import KernelChoice


class JobTerms:
    """The terms of one job on this host.

    Args:
        spec: What this launcher is asked to do.

    Attributes:
        kernels: By which kernels the workers that are started here compute on the CPU.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self.kernels: KernelChoice = choose_kernels_here(spec.kernels, spec.environ)

    def offer(self) -> dict[str, Any]:
        """Returns what the chief's launcher sends to the others."""
        # Imported here: a job of one launcher has no other one to agree with.
        from tfdist.launch.rendezvous.config_agreement import terms_of

        return terms_of(*self._in_common(), self.kernels.kernels)

    def accept(self, theirs: Mapping[str, Any]) -> None:
        """Agrees with what the chief's launcher has sent, and takes its kernels.

        Raises:
            FormingError: This launcher was given something else.
            TfdistError: What `spec.preflight` raises.
        """
        from tfdist.launch.rendezvous.config_agreement import check_agreement
        from tfdist.launch.rendezvous.kernel_agreement import agreed_kernels

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
