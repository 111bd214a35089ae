"""By which kernels workers compute on the CPU: TensorFlow's own or oneDNN's, as `--kernels` and the machine decide.

Both give the same numbers up to rounding. TensorFlow takes oneDNN's by itself on some processors alone, and leaves
them off where they are faster, too. Nothing here reads an environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_CPUINFO = Path("/proc/cpuinfo")
Kernels = Literal["auto", "tensorflow", "onednn"]
"""The values that `--kernels` takes."""
KernelName = Literal["tensorflow", "onednn"]
ONEDNN: KernelName = "onednn"
TENSORFLOW: KernelName = "tensorflow"
VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
NAMES: Mapping[str, str] = {ONEDNN: "oneDNN's kernels", TENSORFLOW: "TensorFlow's own kernels"}
"""The names by which sentences call them."""
_ON_BY_DEFAULT = ("avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16")
"""Flags of which any one is enough for TensorFlow: `DefaultOneDnnPolicy` in tensorflow/core/util/port.cc."""
_NEOVERSE_V1 = ("0x41", "0xd40")
"""The only ARM core on which it takes them; asked for there, too."""
_FASTER_WITH = ("avx2", "fma")
"""Flags of processors for which oneDNN generates code that is faster than TensorFlow's in most operations."""
_NVIDIA = Path("/dev/nvidiactl")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_GPU = ("", "-1")


@dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        model: Its model; empty when it cannot be told.
        flags: What it can do, in the kernel's words, such as `avx2`.
        arm_core: Implementer and part of an ARM core, such as `("0x41", "0xd40")`; empty texts for other processors.
    """

    model: str = ""
    flags: frozenset[str] = frozenset()
    arm_core: tuple[str, str] = ("", "")

    def can(self, *flags: str) -> bool:
        """Returns whether it has all of some flags."""
        return self.flags.issuperset(flags)


def parse(text: str) -> Processor:
    """The first processor in the text of /proc/cpuinfo."""
    rows = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    found = {name.strip().lower(): value.strip() for name, _, value in rows}
    return Processor(
        found.get("model name", ""),
        frozenset(found.get("flags", found.get("features", "")).split()),
        (found.get("cpu implementer", ""), found.get("cpu part", "")),
    )


def this_processor(cpuinfo: Path = _CPUINFO) -> Processor:
    """This machine's processor; one without flags where the kernel does not tell."""
    try:
        return parse(cpuinfo.read_text())
    except OSError:
        return Processor()


@dataclass(frozen=True)
class KernelChoice:
    """The kernels of the workers of one host.

    Attributes:
        kernels: "onednn" or "tensorflow"; None where TensorFlow decides for replicas on GPUs, whose numbers do not
            depend on it.
        setting: What the workers' environment is made to say: the same, or "auto" for what it says already.
        reason: Why, in words that follow "as".
        is_users: Whether the user's environment says so.
        warning: What the user should know; empty mostly.
    """

    kernels: KernelName | None
    setting: Kernels
    reason: str
    is_users: bool = False
    warning: str = ""


def choose_kernels(asked: Kernels, environ: Mapping[str, str], processor: Processor, *, has_gpu: bool) -> KernelChoice:
    """Chooses the kernels of a host's workers.

    What is asked for by `--kernels` or a config holds. Else what the user's environment says does, and else oneDNN's
    are taken on processors that gain by them.

    Args:
        asked: `--kernels`.
    """
    said = environ.get(VARIABLE)
    users = _users(said)
    if asked != "auto":
        warning = _contradiction(asked, said, users)
        return KernelChoice(asked, asked, f"--kernels {asked} asks for them", warning=warning)
    if said is not None:
        # TensorFlow passes over a value that it does not know.
        kernels = users or default_kernels(processor)
        return KernelChoice(kernels, "auto", f"the environment has {VARIABLE}={said}", is_users=True)
    if has_gpu:
        return KernelChoice(None, "auto", "there is a GPU, and TensorFlow decides")
    default = default_kernels(processor)
    if default == TENSORFLOW and processor.can(*_FASTER_WITH):
        return KernelChoice(ONEDNN, ONEDNN, "the processor has AVX2 and FMA, and gains by them")
    return KernelChoice(default, "auto", "TensorFlow takes them by itself on this processor")


def default_kernels(processor: Processor) -> KernelName:
    """The kernels that TensorFlow takes by itself."""
    return ONEDNN if any(map(processor.can, _ON_BY_DEFAULT)) or processor.arm_core == _NEOVERSE_V1 else TENSORFLOW


def kernel_settings(setting: Kernels) -> dict[str, str]:
    """The variables that make a process compute by some kernels; none for `auto`."""
    return {} if setting == "auto" else {VARIABLE: str(int(setting == ONEDNN))}


def computes_on_gpus(environ: Mapping[str, str], nvidia: Path = _NVIDIA) -> bool:
    """Returns whether workers of this machine find a GPU: it has NVIDIA's driver, and `environ` does not hide its GPUs.

    Args:
        nvidia: The device file of the driver.
    """
    return nvidia.exists() and not hides_gpus(environ)


def hides_gpus(environ: Mapping[str, str]) -> bool:
    """Returns whether `environ` has CUDA hide all GPUs of the machine."""
    return environ.get(_VISIBLE) in _NO_GPU


def _users(said: str | None) -> KernelName | None:
    """The kernels that a value of the variable stands for, as TensorFlow reads it; None for no such value."""
    values = {"0": TENSORFLOW, "false": TENSORFLOW, "1": ONEDNN, "true": ONEDNN}
    return values.get((said or "").lower())


def _contradiction(asked: str, said: str | None, users: str | None) -> str:
    if users is None or users == asked:
        return ""
    return (
        f"the environment has {VARIABLE}={said}, which stands for {NAMES[users]}, and --kernels {asked} (kernels: "
        f"{asked} in a config) asks for {NAMES[asked]}. The workers get {NAMES[asked]}. Unset {VARIABLE}, or leave out "
        "--kernels to let it decide."
    )
