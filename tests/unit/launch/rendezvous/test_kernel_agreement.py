"""Kernels of hosts that differ."""

from __future__ import annotations

import pytest

from tfdist.errors import FormingError
from tfdist.launch.rendezvous.config_agreement import terms_of
from tfdist.launch.rendezvous.kernel_agreement import agreed_kernels
from tfdist.launch.worker.kernel_choice import KernelChoice, choose_kernels
from tfdist.launch.worker.processor import Processor

OLD = Processor(flags=frozenset({"avx"}))
AVX2 = Processor(flags=frozenset({"fma", "avx2"}))
VNNI = Processor(flags=AVX2.flags | {"avx512_vnni"})


def chosen(processor: Processor, said: str | None = None, has_gpu: bool = False) -> KernelChoice:
    environ = {} if said is None else {"TF_ENABLE_ONEDNN_OPTS": said}
    return choose_kernels("auto", environ, processor, has_gpu=has_gpu)


@pytest.mark.parametrize(
    ("mine", "chiefs", "kernels", "setting"),
    [
        (chosen(AVX2), chosen(VNNI), "onednn", "onednn"),
        (chosen(VNNI), chosen(AVX2), "onednn", "auto"),
        (chosen(OLD), chosen(AVX2), "onednn", "onednn"),
        (chosen(AVX2), chosen(OLD), "tensorflow", "tensorflow"),
        (chosen(VNNI), chosen(VNNI, "0"), "tensorflow", "tensorflow"),
        (chosen(VNNI, "0"), chosen(OLD), "tensorflow", "auto"),
        (chosen(AVX2), chosen(AVX2, has_gpu=True), "onednn", "onednn"),
        (chosen(AVX2, has_gpu=True), chosen(AVX2), None, "auto"),
    ],
)
def test_every_host_takes_those_of_the_chiefs(
    mine: KernelChoice, chiefs: KernelChoice, kernels: str | None, setting: str
) -> None:
    agreed = agreed_kernels(mine, terms_of(None, {}, chiefs.kernels))
    assert (agreed.kernels, agreed.setting) == (kernels, setting)


def test_an_environment_that_contradicts_the_chiefs_is_refused() -> None:
    with pytest.raises(FormingError) as refused:
        agreed_kernels(chosen(VNNI, "0"), terms_of(None, {}, "onednn"))
    first, mine, chiefs, remedy = str(refused.value).splitlines()
    assert "do not agree on the kernels" in first
    assert mine.startswith("  TensorFlow's own kernels on ") and mine.endswith("TF_ENABLE_ONEDNN_OPTS=0")
    assert chiefs == "  oneDNN's kernels on the chief's host"
    assert "on all of them or on none" in remedy


@pytest.mark.parametrize("sent", ["auto", 1, ["onednn"], "mkl"])
def test_what_no_launcher_of_this_version_sends_is_refused(sent: object) -> None:
    with pytest.raises(FormingError, match="Received: .* Install the same version"):
        agreed_kernels(chosen(AVX2), {"kernels": sent})
