"""Checks of the kernels by which workers compute on the CPU: which a run here would take, and which are faster."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.doctor.check_result import Check, ok, warn
from tfdist.doctor.machine.kernel_speeds import KernelSpeeds, UnknownSpeeds
from tfdist.launch.worker.kernel_choice import NAMES, ONEDNN, TENSORFLOW, KernelChoice

_NAME = "kernels"
_CONVOLUTION = "convolution"
_CLEARLY = 1.1
"""The multiple of the faster kernels' time that the slower ones must take to be warned of."""


def check_kernels(choice: KernelChoice, speeds: KernelSpeeds | UnknownSpeeds | None) -> Check:
    """Returns which kernels `--kernels auto` takes here, and whether these are the faster ones.

    Args:
        choice: Of `--kernels auto`.
        speeds: What was measured; None where nothing was to be.
    """
    if choice.kernels is None:
        return ok(_NAME, f"TensorFlow's choice: {choice.reason}")
    taken = f"--kernels auto takes {NAMES[choice.kernels]}, as {choice.reason}"
    if speeds is None:
        return ok(_NAME, taken)
    if isinstance(speeds, UnknownSpeeds):
        return ok(_NAME, f"{taken}; not measured: {speeds.why}")
    dense, convolution = _ratio(speeds, is_dense=True), _ratio(speeds, is_dense=False)
    found = f"{taken}\n{_compared(dense, convolution)}\n{_listed(speeds)}"
    other = TENSORFLOW if choice.kernels == ONEDNN else ONEDNN
    slower = (dense, convolution) if choice.kernels == ONEDNN else (1 / dense, 1 / convolution)
    if min(slower) > _CLEARLY:
        return warn(_NAME, found, f"Try --kernels {other} with your model: {NAMES[other]} are faster here.")
    return ok(_NAME, found)


def _compared(dense: float, convolution: float) -> str:
    """Both ratios in words."""
    if max(dense, convolution) < 1:
        verdict = f"{NAMES[ONEDNN]} are faster here"
    elif min(dense, convolution) > 1:
        verdict = f"{NAMES[TENSORFLOW]} are faster here"
    else:
        verdict = "which are faster here depends on the layers"
    return (
        f"{verdict}: forward and backward, a Dense layer takes {dense:.2f} times as long with oneDNN's, a convolution "
        f"{convolution:.2f} times"
    )


def _listed(speeds: KernelSpeeds) -> str:
    """Each operation's speed by both."""
    pairs = ", ".join(f"{name} {speeds.tensorflow[name]:.0f} | {speeds.onednn[name]:.0f}" for name in speeds.tensorflow)
    return f"GFLOP/s of a core, TensorFlow's own | oneDNN's: {pairs}"


def _ratio(speeds: KernelSpeeds, *, is_dense: bool) -> float:
    """The time that oneDNN's kernels take over that of TensorFlow's; the products of a Dense layer have one size."""

    def seconds(found: Mapping[str, float]) -> float:
        return sum(1 / speed for name, speed in found.items() if (name != _CONVOLUTION) == is_dense)

    return seconds(speeds.onednn) / seconds(speeds.tensorflow)
