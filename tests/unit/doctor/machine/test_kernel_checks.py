"""Which kernels a run would take, and whether they are the faster ones."""

from __future__ import annotations

import pytest

from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.machine.kernel_checks import check_kernels
from tfdist.doctor.machine.kernel_speeds import KernelSpeeds, UnknownSpeeds
from tfdist.launch.worker.kernel_choice import KernelChoice

ONEDNN = KernelChoice("onednn", "onednn", "the processor has AVX2 and FMA, and gains by them")
OWN = KernelChoice("tensorflow", "auto", "TensorFlow takes them by itself on this processor")
PRODUCTS = ("Dense forward", "its weights' gradient", "its inputs' gradient")


def speeds(own: float, onednn: float, own_convolution: float, onednn_convolution: float) -> KernelSpeeds:
    return KernelSpeeds(
        {**dict.fromkeys(PRODUCTS, own), "convolution": own_convolution},
        {**dict.fromkeys(PRODUCTS, onednn), "convolution": onednn_convolution},
    )


@pytest.mark.parametrize(
    ("choice", "measured", "status", "text"),
    [
        (ONEDNN, speeds(20, 40, 30, 60), CheckStatus.OK, "oneDNN's kernels are faster here: forward"),
        (ONEDNN, speeds(40, 20, 60, 30), CheckStatus.WARN, "TensorFlow's own kernels are faster here"),
        (ONEDNN, speeds(40, 39, 60, 59), CheckStatus.OK, "TensorFlow's own kernels are faster here"),  # as good as
        (ONEDNN, speeds(40, 20, 30, 60), CheckStatus.OK, "depends on the layers"),
        (OWN, speeds(40, 20, 60, 30), CheckStatus.OK, "TensorFlow's own kernels are faster here"),
        (OWN, speeds(20, 40, 30, 60), CheckStatus.WARN, "takes 0.50 times as long with oneDNN's, a convolution 0.50"),
        (OWN, UnknownSpeeds("the time was up"), CheckStatus.OK, "this processor; not measured: the time was up"),
        (ONEDNN, None, CheckStatus.OK, "--kernels auto takes oneDNN's kernels, as the processor has AVX2"),
        (KernelChoice(None, "auto", "there is a GPU"), None, CheckStatus.OK, "TensorFlow's choice: there is a GPU"),
    ],
)
def test_the_kernels_are_judged(
    choice: KernelChoice, measured: KernelSpeeds | UnknownSpeeds | None, status: CheckStatus, text: str
) -> None:
    check = check_kernels(choice, measured)
    assert (check.name, check.status) == ("kernels", status)
    assert text in check.found
    if status is CheckStatus.WARN:
        assert f"--kernels {'tensorflow' if choice is ONEDNN else 'onednn'}" in check.advice


def test_a_product_that_is_slow_alone_counts_by_its_time() -> None:
    own = {"Dense forward": 50.0, "its weights' gradient": 50.0, "its inputs' gradient": 10.0, "convolution": 50.0}
    found = check_kernels(ONEDNN, KernelSpeeds(own, dict.fromkeys(own, 50.0))).found
    assert "a Dense layer takes 0.43 times as long" in found  # 3/50 over 2/50 + 1/10
    assert "its inputs' gradient 10 | 50" in found
