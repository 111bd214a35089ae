"""The card, its driver and the versions: what a figure of a GPU depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.comparison.host_facts import host_facts
from tfdist.doctor.machine.machine_facts import NvidiaDriver, ask
from tfdist.doctor.machine.package_versions import installed

_PACKAGES = ("nvidia-nccl-cu12", "nvidia-cudnn-cu12", "jax")


def card_facts() -> dict[str, Any]:
    """Facts of this machine by name, as JSON has them. No GPU is touched."""
    driver, versions = ask(), installed()
    facts = host_facts()
    return {
        "gpus": [{"name": gpu.name, "driver": gpu.driver, "capability": gpu.capability} for gpu in driver.gpus],
        "problem": _problem(driver),
        "processor": facts["processor"],
        "cores": facts["cores"],
        "versions": {**facts["versions"], **{name: versions[name] for name in _PACKAGES if name in versions}},
    }


def _problem(driver: NvidiaDriver) -> str:
    return driver.problem if driver.gpus or driver.problem else "there is no NVIDIA driver"


def describe(facts: Mapping[str, Any]) -> list[str]:
    """The facts in lines of text."""
    cards: Sequence[Mapping[str, str]] = facts["gpus"]
    lines = [f"Card {number}: {card['name']}, driver {card['driver']}." for number, card in enumerate(cards)]
    if not cards:
        lines = [f"**No GPU here ({facts['problem']}): what follows was run on CPUs, and is no figure of any GPU.**"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return [*lines, f"Processor: {facts['processor']}, {facts['cores']} cores.", f"Versions: {versions}."]
